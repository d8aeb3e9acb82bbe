"""The frameworks that are tried, with their versions."""

from dataclasses import dataclass

NODE = "Node"


@dataclass(frozen=True)
class Framework:
    """A client of MCP that others wrote.

    Args:
        name: its name in the documentation.
        script: the name of its script in `python` or `node`, without the suffix.
        requirements: the packages that the script needs, with exact versions. `NODE` stands for `node/package.json`.
        progress: whether it passes on the progress of a call.
        asked: whether a server can ask its user.
        wrong: what the model gets if an argument is wrong contains this. All frameworks but one name the argument.
        refused: what it says without a valid key contains one of these.
        note: what the documentation says beside it.
    """

    name: str
    script: str
    requirements: tuple[str, ...]
    progress: bool = False
    asked: bool = False
    wrong: str = "second"
    refused: tuple[str, ...] = ("token", "401")
    note: str = ""


def _python(name: str, script: str, *requirements: str, **more: bool | str | tuple[str, ...]) -> Framework:
    return Framework(name, script, requirements, **more)  # type: ignore[arg-type]


FRAMEWORKS = (
    _python("MCP SDK", "mcp_sdk", "mcp==2.3.0", progress=True, asked=True),
    _python("FastMCP", "fastmcp_client", "fastmcp==4.2.3", progress=True, asked=True),
    _python("LangChain", "langchain_tools", "langchain-mcp-adapters==0.3.2", progress=True, asked=True),
    _python("OpenAI Agents SDK", "openai_sdk", "openai-agents==0.24.0"),
    _python("Pydantic AI", "pydantic_toolset", "pydantic-ai-slim[mcp]==2.68.0", progress=True, asked=True),
    _python("LlamaIndex", "llama_index_tools", "llama-index-tools-mcp==0.6.0"),
    _python("CrewAI", "crewai_agent", "crewai==1.15.30"),
    _python("Google ADK", "adk_toolset", "google-adk[mcp]==2.13.0", progress=True, asked=True),
    _python(
        "Microsoft Agent Framework",
        "microsoft_framework",
        "agent-framework-core==1.23.0",
        "mcp==2.3.0",
        "tenacity==9.1.4",
    ),
    _python(
        "smolagents",
        "smolagents_tools",
        "smolagents[mcp]==1.26.0",
        "mcp==1.30.0",
        refused=("Couldn't connect",),
        note="It needs version 1 of the SDK. If the key is wrong, it does not say why it cannot connect.",
    ),
    _python("Haystack", "haystack_tools", "mcp-haystack==2.1.1"),
    _python("Strands Agents", "strands_client", "strands-agents==1.62.0", progress=True, asked=True),
    _python("Agno", "agno_tools", "agno[mcp]==3.1.10"),
    Framework("TypeScript SDK 1", "sdk_v1", (NODE, "@modelcontextprotocol/sdk"), progress=True, asked=True),
    Framework("TypeScript SDK 2", "sdk_v2", (NODE, "@modelcontextprotocol/client"), progress=True, asked=True),
    Framework("AI SDK (Vercel)", "ai_sdk", (NODE, "@ai-sdk/mcp"), asked=True),
    Framework("Mastra", "mastra", (NODE, "@mastra/mcp"), progress=True, asked=True),
    Framework(
        "LangChain.js",
        "langchain",
        (NODE, "@langchain/mcp-adapters"),
        progress=True,
        wrong="did not match expected schema",
        note="It checks the arguments itself, before the call, and its error does not name the argument.",
    ),
    Framework("OpenAI Agents SDK for JavaScript", "openai_agents", (NODE, "@openai/agents")),
)
