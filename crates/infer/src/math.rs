//! Exponential and logarithm by polynomials: the same on every machine, and inlined where a likelihood is summed.

use std::f64::consts::{LN_2, LOG2_E};

const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Added and taken away again, it leaves the nearest whole number, and the number itself in the lowest bits.
const TO_WHOLE: f64 = 6_755_399_441_055_744.0;
const MANTISSA: u64 = (1 << 52) - 1;
const ONE_BITS: u64 = 1.0_f64.to_bits();
const HALF_ROOT_BITS: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
/// Bits of 2^52: a whole number below it, put into its lowest bits, is added.
const WHOLE_BITS: u64 = 4_503_599_627_370_496.0_f64.to_bits();
/// Beyond these the result is held.
const SMALLEST: f64 = -700.0;
const LARGEST: f64 = 700.0;

/// `e^x`, relative error below 1e-12; of numbers beyond ±700 that of the end.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = larger(smaller(x, LARGEST), SMALLEST);
    let shifted = x * LOG2_E + TO_WHOLE;
    let whole = shifted - TO_WHOLE;
    let r = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0));
    let middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0));
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let high = (1.0 / 40_320.0 + r * (1.0 / 362_880.0)) + r2 * (1.0 / 3_628_800.0);
    (low + r4 * (middle + r4 * high)) * power
}

/// Natural logarithm of a positive, normal number; error below 1e-11 of it.
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    // The part lies between the square roots of a half and of two. Of the power all but its bits is done in floats: a
    // processor's vectors have no such conversion.
    let above = x.to_bits().wrapping_add(ONE_BITS.wrapping_sub(HALF_ROOT_BITS));
    let power = f64::from_bits((above >> 52) | WHOLE_BITS) - (f64::from_bits(WHOLE_BITS) + 1023.0);
    let part = f64::from_bits((above & MANTISSA).wrapping_add(HALF_ROOT_BITS));
    let s = (part - 1.0) / (part + 1.0);
    let (z, z2) = (s * s, (s * s) * (s * s));
    let odd =
        (1.0 / 3.0 + z * (1.0 / 5.0)) + z2 * ((1.0 / 7.0 + z * (1.0 / 9.0)) + z2 * (1.0 / 11.0 + z * (1.0 / 13.0)));
    (2.0 * s + 2.0 * s * z * odd) + power * LN_2
}

/// The larger of two numbers; `f64::max` asks after what is no number, too.
#[inline(always)]
pub(crate) fn larger(one: f64, two: f64) -> f64 {
    if one > two {
        one
    } else {
        two
    }
}

/// The smaller of two numbers.
#[inline(always)]
pub(crate) fn smaller(one: f64, two: f64) -> f64 {
    if one < two {
        one
    } else {
        two
    }
}

#[cfg(test)]
mod tests {
    use super::{exp, ln};

    #[test]
    fn both_are_accurate() {
        for step in -70_000..70_000 {
            let x = f64::from(step) * 0.0099;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "exp({x})");
        }
        for step in -60_000..60_000 {
            let x = (f64::from(step) * 0.0113).exp();
            assert!((ln(x) - x.ln()).abs() <= 1e-11 * x.ln().abs().max(1e-9), "ln({x}) {} {}", ln(x), x.ln());
        }
        for step in -1000..1000 {
            let x = 1.0 + f64::from(step) * 1e-6;
            assert!((ln(x) - x.ln()).abs() <= 1e-15, "ln({x})");
        }
    }

    #[test]
    fn ends_are_held() {
        assert_eq!(exp(-1e9), exp(-700.0));
        assert_eq!(exp(1e9), exp(700.0));
        assert_eq!((exp(0.0), ln(1.0)), (1.0, 0.0));
    }
}
