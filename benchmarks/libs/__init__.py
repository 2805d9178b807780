"""One file per library, each used as its documentation recommends, all on the same cores."""
