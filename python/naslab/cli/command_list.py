"""The commands of naslab. A new one is a line here; its help, examples, completion and pages follow from that.

The order is that of the help. A brief fits one line of a terminal of 80 columns beside the name. A test parses every
example, and carries those out whose target is simulated.
"""

from __future__ import annotations

from naslab.cli.registry import COMPARE, EXPERT, LAB, MEASURE, RESULTS, START, TOOLS, Command, Example

X = Example

COMMANDS: tuple[Command, ...] = (
    Command(
        "doctor", START, "Check this machine or a target, and say what to fix", "app:doctor", (
            X("naslab doctor", "What this machine can measure and build, and which packages are missing."),
            X("naslab doctor 192.168.1.5", "What a machine offers by SMB and NFS, with the versions it speaks."),
            X("naslab doctor smb://user@nas/media", "What this share allows: protocol, signing, free space."),
        ),
    ),
    Command(
        "discover", START, "Find the file servers that announce themselves here", "discover:discover", (
            X("naslab discover", "Ask on all networks of this machine, for three seconds."),
            X("naslab discover --interface eth0 --for 10s", "Ask on one network, and wait longer."),
        ),
    ),
    Command(
        "run", START, "Find what limits a target, with evidence, in five minutes", "app:run", (
            X("naslab run smb://user@nas/media", "A share, measured directly: no mount, no client cache."),
            X("naslab run /mnt/nas --budget 2m -o nas.html", "A mounted folder in two minutes, with an HTML report."),
            X("naslab run lab:demo", "A first try without a file server."),
        ),
        measures=True,
    ),
    Command(
        "explain", START, "What limits a target, from a stored run", "explain_run:explain", (
            X("naslab explain", "The newest run: limits, evidence, open questions, what to do next."),
            X("naslab explain RUN --json", "Another run, by its id or the beginning of it, as JSON."),
        ),
        old_options={"--output": "naslab report RUN -o FILE", "--force": "naslab report RUN -o FILE --force"},
    ),
    Command(
        "report", START, "One HTML file with the charts of one or more runs", "report:report", (
            X("naslab report last -o nas.html", "The newest run."),
            X("naslab report RUN OTHER --link 1g -o both.html",
              "Two runs in one chart, with the line of a 1 Gbit/s link."),
            X("naslab report last --one-page -o nas.svg", "One picture and one table on one page, for print."),
        ),
    ),
    Command(
        "sweep", MEASURE, "File size x record size x test (IOzone's method)", "app:sweep", (
            X("naslab sweep nfs://nas/export --file-size 1m..4g", "File sizes from 1 MiB to 4 GiB, doubling."),
            X("naslab sweep smb://nas/media --adaptive -o sweep.html", "A tenth of the bytes; the rest is predicted."),
            X("naslab sweep sim: --file-size 1m,16m --record 64k,1m", "A simulated server."),
        ),
    ),
    Command(
        "sustained", MEASURE, "One load for minutes: rate over time, steadiness, cost", "app:sustained", (
            X("naslab sustained smb://nas/media --size 20g --write 100 --duration 15m", "Write for 15 minutes."),
            X("naslab sustained /mnt/nas --size 4g --random --block 4k --depth 32", "Random reads of 4 KiB."),
            X("naslab sustained sim: --size 1g --duration 10s", "A simulated server."),
        ),
        old_options={
            "--find-burst": "naslab burst", "--cached": "naslab cache speed", "--find-cache": "naslab cache size",
            "--evict-size": "naslab cache speed --evict-size", "--budget": "naslab burst --budget, or naslab cache",
        },
    ),
    Command(
        "burst", MEASURE, "How long a burst lasts, the rate after it, and why it ended", "app:burst", (
            X("naslab burst smb://nas/media --size 20g --write 100 --budget 1h", "Writes, for at most an hour."),
            X("naslab burst nfs://nas/export --size 4g --random --block 4k --depth 32", "Random reads of 4 KiB."),
        ),
    ),
    Command(
        "cache", MEASURE, "The server cache: how fast it is read, and how much fits", "", (
            X("naslab cache size smb://nas/media --size 64g", "The largest working set that fits."),
            X("naslab cache speed smb://nas/media", "The network and the protocol alone."),
        ),
    ),
    Command(
        "cache speed", "", "Rate of cached reads: the network and the protocol alone", "app:cache_speed", (
            X("naslab cache speed smb://nas/media", "A file of 64 MiB, read cold, warm and evicted."),
            X("naslab cache speed sim: --duration 2s", "A simulated server."),
        ),
        measures=True,
    ),
    Command(
        "cache size", "", "The largest working set that fits the server cache", "app:cache_size", (
            X("naslab cache size smb://nas/media --size 64g --depth 8", "Working sets of up to 64 GiB."),
            X("naslab cache size sim: --size 512m", "A simulated server."),
        ),
        measures=True,
    ),
    Command(
        "curve", MEASURE, "Latency against offered load: the knee and the capacity", "app:curve", (
            X("naslab curve smb://nas/media --random --write 30", "Random I/O of 4 KiB, 30 % of it writes."),
            X("naslab curve sim: --size 64m --max-rate 4000", "No load above 4,000 operations per second."),
        ),
    ),
    Command(
        "profile", MEASURE, "Read rate by position, burst rate and access time", "app:profile", (
            X("naslab profile /dev/sdb --direct", "A disk of this machine, which is only read."),
            X("naslab profile smb://nas/media --size 8g --zones 40", "A file of 8 GiB in 40 zones."),
            X("naslab profile sim: --size 256m", "A simulated server."),
        ),
    ),
    Command(
        "tree", MEASURE, "Metadata and small files: create, stat, list, rename, remove", "app:tree", (
            X("naslab tree smb://nas/media --files 10000 --workers 8", "Eight trees of 10,000 files each."),
            X("naslab tree nfs://nas/export --cold", "The reading phases, a second time with new connections."),
            X("naslab tree sim: --files 100", "A simulated server."),
        ),
    ),
    Command(
        "apps", MEASURE, "Application workloads: twelve like NASPT's, and newer ones", "app:apps", (
            X("naslab apps smb://nas/media", "The twelve workloads of NASPT's kind."),
            X("naslab apps smb://nas/media --only modern --pace recorded", "Newer applications, at their own pace."),
            X("naslab apps --list", "Every workload, each number with its source."),
        ),
    ),
    Command(
        "job", MEASURE, "Real jobs on real files: copy, zip, checksum, checkout", "app:job", (
            X("naslab job smb://user@nas/media copy-in,copy-out", "Copy a generated corpus to the share, and back."),
            X("naslab job /mnt/nas zip,unzip --source ~/documents", "Pack and unpack a copy of your own folder."),
        ),
    ),
    Command(
        "durable", MEASURE, "Which acknowledged writes survive a power cut", "app:durable", (
            X("naslab durable smb://nas/media", "You cut the power when asked."),
            X("naslab durable lab:samba --repeat 3", "The lab kills its own server, three times."),
        ),
    ),
    Command(
        "security", MEASURE, "What signing and encryption cost: a price list", "security:security", (
            X("naslab security smb://user@nas/media", "Every way to sign and encrypt that the server allows."),
            X("naslab security smb://user@nas/media --repeat 12 -o prices.html", "Twelve rounds, with an HTML report."),
        ),
    ),
    Command(
        "replay", MEASURE, "Replay a recorded trace on any target", "app:replay", (
            X("naslab replay smb://user@nas/media build.trace.zst", "As fast as the order of operations allows."),
            X("naslab replay nfs://nas/export build.trace.zst --pace recorded", "Each at its recorded time."),
        ),
    ),
    Command(
        "runs", RESULTS, "List stored runs", "app:runs", (
            X("naslab runs --limit 10", "The ten newest."),
            X("naslab runs --target nas --label ram=2g", "Of targets whose names contain `nas`, with this label."),
        ),
    ),
    Command(
        "show", RESULTS, "One run in the terminal", "app:show", (
            X("naslab show", "The newest run."),
            X("naslab show published:fast-nas-raptor --json", "Results that an article printed, as JSON."),
        ),
    ),
    Command(
        "export", RESULTS, "Runs as JSON, CSV, XLSX, Parquet, metrics or a web site", "exporting:export", (
            X("naslab export last -o run.xlsx", "A workbook; the file's name sets the format."),
            X("naslab export RUN OTHER -o cells.csv --redact", "Two runs, without names of hosts and users."),
            X("naslab export --site public --limit 20", "The 20 newest runs as pages for any web server."),
        ),
    ),
    Command(
        "audit", RESULTS, "Check the results of any tool for impossible values", "audit:audit", (
            X("naslab audit last", "The newest run."),
            X("naslab audit nas.txt --link 1g --client-memory 4g", "Another tool's output, with known facts."),
        ),
    ),
    Command(
        "serve", RESULTS, "The library of results in a browser, read-only", "serve:serve", (
            X("naslab serve", "On this machine, http://127.0.0.1:8321."),
            X("naslab serve --listen 0.0.0.0:8321 --token auto", "On all interfaces, with a token that it prints."),
            X("naslab serve --metrics", "Also http://127.0.0.1:8321/metrics for Prometheus."),
        ),
    ),
    Command(
        "mcp", RESULTS, "Stored runs as tools for language models (MCP)", "naslab.mcp.command:mcp", (
            X("naslab mcp", "Read the results; nothing can be measured. An MCP client starts this."),
            X("naslab mcp --target smb://nas/media --budget 2m", "Also measure this share, two minutes at a time."),
        ),
    ),
    Command(
        "whatif", RESULTS, "Predict what another link, disk or memory would change", "whatif:whatif", (
            X("naslab whatif --link 10g", "The server of the newest run, with a 10 Gbit/s link."),
            X("naslab whatif last --ram 2x --disk 400MB", "Twice the server cache and another disk."),
        ),
    ),
    Command(
        "compare", COMPARE, "Is the difference between runs, or between targets, real?", "comparing:compare", (
            X("naslab compare RUN OTHER", "Two stored runs; the first is the baseline."),
            X("naslab compare RUN OTHER --why", "Also the first step at which their ladders differ."),
            X("naslab compare --run smb://nas/media nfs://nas/media", "Two targets, measured alternately."),
        ),
        measures=True,
    ),
    Command(
        "compare check", COMPARE, "A gate for releases: exit code 3 if a run is worse", "comparing:check", (
            X("naslab compare check last --baseline RUN", "0: not worse, 3: worse, 4: undecided."),
            X("naslab compare check last --baseline RUN --junit gate.xml", "With JUnit XML for a CI server."),
        ),
    ),
    Command(
        "compare rerun", COMPARE, "Repeat a stored run on any target, and compare both", "comparing:rerun", (
            X("naslab compare rerun RUN smb://nas/media", "After a change of the server."),
            X("naslab compare rerun last nfs://nas/media --margin 3", "Differences below 3 % count as equivalent."),
        ),
        measures=True,
    ),
    Command(
        "compare history", COMPARE, "Runs of a target over time, and where it changed", "comparing:history", (
            X("naslab compare history smb://nas/media", "All runs of this share."),
            X("naslab compare history smb://nas/media --command sweep -o nas.html", "Sweeps only, with a report."),
        ),
    ),
    Command(
        "iozone", TOOLS, "IOzone's command line", "naslab.cli.iozone:main", (
            X("naslab iozone -a -i 0 -i 1 -g 64m -f smb://user@nas/media/test.tmp", "IOzone's -a, without a mount."),
            X("naslab iozone -Rab out.xls -i 0 -i 1 -f /mnt/nas/test.tmp", "With IOzone's spreadsheet."),
        ),
        own_syntax="-h", forms="naslab.commands.iozone.args:forms", measures=True,
    ),
    Command(
        "diskspd", TOOLS, "DiskSpd's command line", "naslab.cli.diskspd:main", (
            X("naslab diskspd -c1G -d20 -b1M -w100 -o32 -Sr -L smb://user@nas/media/test.dat", "Writes, 32 at once."),
            X("naslab diskspd -c1G -d10 -b4K -r -t4 -o8 /mnt/nas/test.dat", "Random reads by four threads."),
        ),
        own_syntax="-?", forms="naslab.commands.diskspd.args:forms", measures=True,
    ),
    Command(
        "import", TOOLS, "Results of fio, IOzone, DiskSpd, NASPT and others as runs", "importing:import_results", (
            X("naslab import results.json --target-name 'NAS, RAID 5'", "A result, with what was measured."),
            X("naslab import results.txt nas.txt --label ram=2g", "Two results, with a label."),
        ),
    ),
    Command(
        "trace", TOOLS, "Record, convert and describe traces of applications", "", (
            X("naslab trace record -o build.trace.zst -- make -j4", "Every operation of a command on files."),
            X("naslab trace show build.trace.zst", "Its kinds, sizes, sequentiality and concurrency."),
        ),
    ),
    Command(
        "trace record", "", "Run a command under strace, and record its operations", "trace:record", (
            X("naslab trace record -o build.trace.zst -- make -j4", "Files below this folder."),
            X("naslab trace record --root /mnt/nas --anonymise -- rsync -a /mnt/nas/ copy/", "With hashed names."),
        ),
        settings={"allow_interspersed_args": False},
    ),
    Command(
        "trace convert", "", "Make a trace from strace, fio, dbench or packet captures", "trace:convert", (
            X("naslab trace convert capture.pcap -o office.trace.zst", "SMB or NFS packets."),
            X("naslab trace convert app.txt --root /srv/data -o app.trace.zst", "Text that strace wrote."),
        ),
    ),
    Command(
        "trace show", "", "The profile of a trace", "trace:show", (
            X("naslab trace show build.trace.zst -o build.html", "Also as a chart."),
            X("naslab trace show build.trace.zst --emit-app build.toml", "Also as an application for naslab apps."),
        ),
    ),
    Command(
        "lab", LAB, "Private servers with known limits, on this machine", "", (
            X("naslab lab up samba", "Start a server; it stays until naslab lab down."),
            X("naslab run lab:samba", "Measure it."),
            X("naslab lab down", "End all of them."),
        ),
    ),
    Command(
        "lab list", LAB, "List the systems, what is running, and what is missing", "lab:list_systems", (
            X("naslab lab list", "All systems."),
            X("naslab lab list --json", "For programs."),
        ),
    ),
    Command(
        "lab doctor", "", "Which systems this machine can build, and how", "lab:doctor", (
            X("naslab lab doctor", "What each system lacks, and the packages to install."),
            X("naslab lab doctor --json", "For programs."),
        ),
    ),
    Command(
        "lab status", "", "Running servers: addresses, processes, memory of disks", "lab:status", (
            X("naslab lab status", "All servers that are up."),
            X("naslab lab status --json", "For programs."),
        ),
    ),
    Command(
        "lab up", LAB, "Start a server; it stays until naslab lab down", "lab:up", (
            X("naslab lab up samba", "A Samba server on a port of its own."),
            X("naslab lab up demo --folder /tmp/shared", "Serve this folder, and keep it."),
        ),
    ),
    Command(
        "lab show", "", "Draw a system with its limits", "lab:show", (
            X("naslab lab show raid5", "Its parts, and which backend can build it here."),
            X("naslab lab show raid5 --json", "For programs."),
        ),
    ),
    Command(
        "lab down", "", "Stop a server, or all of them, and remove its files", "lab:down", (
            X("naslab lab down samba", "One server."),
            X("naslab lab down", "All of them."),
        ),
    ),
    Command(
        "lab exec", "", "Run a command at the server's or a client's end", "lab:execute", (
            X("naslab lab exec samba --client 0 -- df -h", "Where the server's disk is mounted."),
            X("naslab lab exec raid5 -- ping -c 3 10.0.0.1", "At a client's end of the link."),
        ),
        settings={"ignore_unknown_options": True},
    ),
    Command(
        "lab calibrate", "", "Measure each planted limit with other tools", "lab_calibrate:run", (
            X("naslab lab calibrate raid5", "Three runs of each limit."),
            X("naslab lab calibrate raid5 --quick", "One short run of each."),
        ),
    ),
    Command(
        "lab run", LAB, "Run an article's experiment, and test its conclusions", "experiment:run", (
            X("naslab lab run fast-nas --dry-run", "What would be built and measured."),
            X("naslab lab run nas4220 --quick -o nas4220.html", "The smallest sizes, with a report."),
        ),
        measures=True,
    ),
    Command(
        "reference", EXPERT, "Ceilings to compare results with: client, net, fsx", "", (
            X("naslab reference client", "What this client can do at most, without any server."),
            X("naslab reference net --listen", "On the server's side; then naslab reference net HOST here."),
        ),
    ),
    Command(
        "reference client", "", "What this client can do at most, without any server", "ceiling:ceiling", (
            X("naslab reference client", "Memory, zlib, AES, TCP to itself."),
            X("naslab reference client nas --again", "Also the interface on the path to a server; measured again."),
        ),
    ),
    Command(
        "reference net", "", "Raw TCP to another host, both ways", "app:net", (
            X("naslab reference net --listen", "On the other host."),
            X("naslab reference net nas --connections 4", "Here: four connections in each direction."),
        ),
        measures=True,
    ),
    Command(
        "reference fsx", "", "What Amazon publishes about an FSx file system", "app:fsx", (
            X("naslab reference fsx --tier 32 --storage hdd --tib 5", "Limits, burst credit, times."),
            X("naslab reference fsx --tier 512 --storage ssd --tib 1 --run last", "And the newest run beside it."),
            X("naslab reference fsx --run last", "The smallest file system that carries the newest run's load."),
        ),
    ),
    Command(
        "mkfile", EXPERT, "Create a test file of incompressible data", "app:mkfile", (
            X("naslab mkfile test.dat --size 4g", "Four GiB that do not compress."),
            X("naslab mkfile holes.dat --size 1t --sparse", "Make a sparse file; reads of it do not reach the disk."),
        ),
    ),
    Command(
        "clean", EXPERT, "Remove folders that killed runs left on a target", "app:clean", (
            X("naslab clean smb://nas/media", "Folders of runs that have ended."),
            X("naslab clean /mnt/nas --force", "Also remove folders whose run may not have ended."),
        ),
    ),
    Command(
        "completion", EXPERT, "Shell completion of commands, options and runs", "completing:completion", (
            X("naslab completion bash > ~/.local/share/bash-completion/completions/naslab", "From the next login."),
            X("naslab completion zsh > ~/.zfunc/_naslab", "Zsh, where fpath has ~/.zfunc."),
            X("naslab completion fish > ~/.config/fish/completions/naslab.fish", "Fish."),
        ),
    ),
    Command("site", "", "The library as files", "serve:site", (), instead="naslab export --site DIR"),
)  # fmt: skip

OLD_NAMES = {
    "check": "compare check",
    "rerun": "compare rerun",
    "history": "compare history",
    "ceiling": "reference client",
    "net": "reference net",
    "fsx": "reference fsx",
}
"""Old names of commands: they work for one release, with a hint."""
