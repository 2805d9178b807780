"""What `benchmarks.bench_live` and `benchmarks.soak` measure: one file for each part."""
