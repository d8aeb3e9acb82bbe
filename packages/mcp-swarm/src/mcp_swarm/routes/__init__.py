"""What is answered beside `/mcp`: for people, probes and operators."""
