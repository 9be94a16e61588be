"""The conformance program: prints what happens as lines of JSON."""
