//! Where the mean of a series changes: the least-squares segmentation with a penalty for each change.

/// Edges between segments, of at least `shortest` values each, that make the sum of squares about the segments' means
/// and `penalty` for each change least. Exact, by dynamic programming over the last edge (Jackson et al. 2005, optimal
/// partitioning); quadratic in the number of values. Of equally good ones, the one with the earlier last edge.
/// `shortest`: at least 1. Values that are not finite have no best segmentation: no edges.
pub fn segment_edges(values: &[f64], shortest: usize, penalty: f64) -> Vec<usize> {
    let len = values.len();
    if shortest == 0 || len < 2 * shortest || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let mean = values.iter().sum::<f64>() / len as f64;
    let mut sums = vec![0.0; len + 1];
    for (at, value) in values.iter().enumerate() {
        sums[at + 1] = sums[at] + (value - mean);
    }
    let inverse: Vec<f64> = (0..=len).map(|count| 1.0 / count as f64).collect();
    // The sum of all squares is the same for every segmentation and left out.
    let mut least = vec![f64::INFINITY; len + 1];
    let mut last = vec![0; len + 1];
    least[0] = -penalty;
    for end in shortest..=len {
        for begin in std::iter::once(0).chain(shortest..(end + 1).saturating_sub(shortest)) {
            let sum: f64 = sums[end] - sums[begin];
            let cost = least[begin] + penalty - sum * sum * inverse[end - begin];
            if cost < least[end] {
                (least[end], last[end]) = (cost, begin);
            }
        }
    }
    let mut edges: Vec<usize> = std::iter::successors(Some(last[len]), |edge| (*edge > 0).then(|| last[*edge]))
        .take_while(|edge| *edge > 0)
        .collect();
    edges.reverse();
    edges
}

#[cfg(test)]
mod tests {
    use super::segment_edges;
    use naslab_workload::Rng;

    fn cost(values: &[f64], edges: &[usize], penalty: f64) -> f64 {
        let all: Vec<usize> = std::iter::once(0).chain(edges.iter().copied()).chain([values.len()]).collect();
        let squares = |part: &[f64]| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            part.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
        };
        all.windows(2).map(|ends| squares(&values[ends[0]..ends[1]])).sum::<f64>() + penalty * edges.len() as f64
    }

    /// Every way to cut `len` values into pieces of at least `shortest`.
    fn every(len: usize, shortest: usize) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new()];
        for first in shortest..=len.saturating_sub(shortest) {
            for rest in every(len - first, shortest) {
                found.push(std::iter::once(first).chain(rest.iter().map(|edge| edge + first)).collect());
            }
        }
        found
    }

    #[test]
    fn no_other_segmentation_is_better() {
        let mut rng = Rng::new(7, 0);
        for round in 0..300 {
            let (len, shortest) = (rng.below(14) as usize, 1 + rng.below(4) as usize);
            let step = rng.below(len.max(1) as u64) as usize;
            let values: Vec<f64> =
                (0..len).map(|at| rng.unit() * 3.0 + if at >= step { 2.0 } else { 1e3 * (round % 2) as f64 }).collect();
            let penalty = rng.unit() * 4.0;
            let found = segment_edges(&values, shortest, penalty);
            let ends: Vec<usize> = std::iter::once(0).chain(found.iter().copied()).chain([len]).collect();
            assert!(found.is_empty() || ends.windows(2).all(|pair| pair[1] - pair[0] >= shortest), "{found:?}");
            let best = every(len, shortest).iter().map(|edges| cost(&values, edges, penalty)).fold(f64::MAX, f64::min);
            assert!(cost(&values, &found, penalty) <= best + 1e-6 * best.abs().max(1.0), "{values:?} {shortest}");
        }
    }

    #[test]
    fn what_has_no_segmentation_has_no_edges() {
        assert!(segment_edges(&[], 1, 1.0).is_empty() && segment_edges(&[1.0, 9.0, 1.0], 2, 0.1).is_empty());
        assert!(
            segment_edges(&[0.0, f64::NAN, 5.0, 5.0], 1, 0.1).is_empty() && segment_edges(&[1.0; 4], 0, 0.1).is_empty()
        );
        assert_eq!(segment_edges(&[1.0, 1.0, 5.0, 5.0], 2, 0.1), [2]);
    }
}
