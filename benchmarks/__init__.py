"""headrace and other libraries on the same media and cores, after a check for equal frames.

python -m benchmarks.media                make the media, once
python -m benchmarks.bench_sequential     one question per file
python -m benchmarks.conformance FOLDER   is every frame of these files the right one?
python -m benchmarks.pages                put the results into README.md and docs/benchmarks.md
"""
