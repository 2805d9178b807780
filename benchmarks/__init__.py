"""headrace beside other libraries: the same media, the same cores, equal frames proved first.

python -m benchmarks.media                make the media, once
python -m benchmarks.bench_sequential     one question per file
python -m benchmarks.conformance FOLDER   is every frame of these files the right one?
python -m benchmarks.pages                put the results into README.md and docs/benchmarks.md
"""
