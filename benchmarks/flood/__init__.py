"""Parts of `benchmarks.session_flood`: its servers, its clients, and what they show."""
