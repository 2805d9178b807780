"""Parts of `benchmarks.bench_live` and `benchmarks.soak`, one file each."""
