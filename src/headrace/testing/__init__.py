"""Public fakes and synthetic video, for the tests of headrace and of its users."""
