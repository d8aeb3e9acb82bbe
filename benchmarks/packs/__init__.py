"""Components that the benchmarks serve, a package for each kind; `MCP_COMPONENTS` names one."""
