"""The public servers that are tried, with their versions."""

from dataclasses import dataclass, field
from typing import Any

FASTMCP, MCPSERVER, PROXY = "FastMCP", "MCPServer", "a proxy of a stdio server"


@dataclass(frozen=True)
class PublicServer:
    """A server of the Python package index.

    Args:
        package: its name and version.
        kind: what it is built with.
        code: a Python file that both commands run: it gives the server the name `mcp`. For a proxy, the module that
            serves over stdio.
        calls: tools and arguments. Calls that would need the internet fail alike.
        more: further requirements.
        variables: variables of the environment.
        ignored: a regular expression for texts that differ from call to call.
        anonymous: the status of a request without a token.
        conflict: the requirement that excludes what anyreplica needs. The server is then not started.
        broken: what the server itself says when it does not start, with either command.
        note: what the documentation says beside it.
    """

    package: str
    kind: str
    code: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    more: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    ignored: str = ""
    anonymous: int = 200
    conflict: str = ""
    broken: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """The name of the package."""
        return self.package.partition("==")[0]


_GOOGLE = {
    "GOOGLE_OAUTH_CLIENT_ID": "an-id.apps.googleusercontent.com",
    "GOOGLE_OAUTH_CLIENT_SECRET": "a-secret-of-nobody",
    "WORKSPACE_MCP_OAUTH_PROXY_STORAGE_BACKEND": "memory",
}

SERVERS = (
    PublicServer(
        "mcp-server-motherduck==1.1.0",
        FASTMCP,
        'from mcp_server_motherduck.server import create_mcp_server\n\nmcp = create_mcp_server(db_path=":memory:")\n',
        calls=(
            ("execute_query", {"sql": "select 20 + 22 as answer"}),
            ("execute_query", {"sql": "select nothing"}),
            ("list_tables", {}),
            ("list_columns", {"table": "missing"}),
        ),
    ),
    PublicServer(
        "workspace-mcp==2.2.1",
        FASTMCP,
        "from core.server import configure_server_for_http, server as mcp, set_transport_mode\n"
        "import gdocs.docs_tools, gtasks.tasks_tools\n\n"
        'set_transport_mode("streamable-http")\n'
        "configure_server_for_http()\n",
        variables={**_GOOGLE, "MCP_ENABLE_OAUTH21": "true"},
        anonymous=401,
        note="It has a login of its own (OAuth 2.1 of Google).",
    ),
    PublicServer(
        "workspace-mcp==2.2.1",
        FASTMCP,
        "from core.server import server as mcp\nimport gdocs.docs_tools, gtasks.tasks_tools\n",
        calls=(("get_doc_content", {"document_id": "1", "user_google_email": "ada@example.com"}),),
        ignored=r"state=\w+|127\.0\.0\.1:\d+",
        note="It runs without its login here. Its own subclass of FastMCP, its middleware and its routes are tried.",
    ),
    PublicServer(
        "learn-mcp-server==0.2.0",
        FASTMCP,
        "from learn_mcp_server.server import create_server\n\nmcp = create_server()\n",
        calls=(
            ("get_server_info", {}),
            ("explain_concept", {"concept": "tools"}),
            ("explain_concept", {"concept": "nothing"}),
            ("generate_stdio_config", {"command": "python", "args": ["-m", "server"]}),
        ),
    ),
    PublicServer(
        "office-word-mcp-server==1.1.11",
        FASTMCP,
        "from word_document_server.main import mcp, register_tools\n\nregister_tools()\n",
        calls=(
            ("create_document", {"filename": "report.docx", "title": "Report"}),
            ("add_heading", {"filename": "report.docx", "text": "Results"}),
            ("get_document_text", {"filename": "report.docx"}),
            ("get_document_text", {"filename": "missing.docx"}),
        ),
    ),
    PublicServer(
        "fastmcp-sample-server==0.4.1",
        FASTMCP,
        "from server.app import mcp\n",
        calls=(
            ("calculate", {"expression": "6 * 7"}),
            ("calculate", {"expression": "1 / 0"}),
            ("json_format", {"data": '{"b": 1, "a": 2}', "sort_keys": True}),
            ("fetch_url", {"url": "http://127.0.0.1:9/"}),
            ("note_get", {"note_id": 99}),
        ),
        ignored=r"\d{4}-\d\d-\d\d[T ][\d:.+]+|uptime\S*: [\d.]+|\{\"(calls|summary_60m)\": .*",  # times
    ),
    PublicServer(
        "math-mcp-learning-server==0.10.3",
        FASTMCP,
        "from math_mcp.server import mcp\n",
        calls=(
            ("calculate", {"expression": "sqrt(16) + 2"}),
            ("calculate", {"expression": "import os"}),
            ("statistics", {"numbers": [1, 2, 3], "operation": "median"}),
            ("convert_units", {"value": 1, "from_unit": "km", "to_unit": "m", "unit_type": "length"}),
        ),
        ignored=r"\d{4}-\d\d-\d\d[T ][\d:.+]+",
    ),
    PublicServer(
        "sym-mcp==0.1.2",
        FASTMCP,
        "from sym_mcp.server import mcp\n",
    ),
    PublicServer(
        "openapi-tools-mcp==0.3.1",
        FASTMCP,
        "from openapi_tools_mcp.server import mcp\n",
        calls=(
            ("spec_info", {"spec_path": "missing.json"}),
            ("spec_list", {"section": "paths", "spec_path": "missing.json"}),
        ),
    ),
    PublicServer(
        "faf-memory-mcp==0.1.2",
        FASTMCP,
        "from faf_memory_mcp.server import mcp\n",
        calls=(("list_facts", {}), ("recall", {"query": "tea"})),
    ),
    PublicServer(
        "entraid-mcp-server==0.3.1",
        FASTMCP,
        "from msgraph_mcp_server.server import mcp\n",
        calls=(
            ("list_permission_categories_and_tasks", {}),
            ("suggest_permissions_for_task", {"task_category": "users", "task_name": "read"}),
        ),
    ),
    PublicServer(
        "symbolic-math-mcp==0.1.5",
        FASTMCP,
        "from symbolic_math_mcp.config import ServerConfig\n"
        "from symbolic_math_mcp.server import create_mcp_server\n\n"
        "mcp = create_mcp_server(ServerConfig('symbolic', 'stdio://', 10, 10.0))\n",
        calls=(("check_symbolic_math", {"filename": "missing.yaml"}),),
    ),
    PublicServer(
        "topdesk-mcp==0.8.20",
        FASTMCP,
        "from topdesk_mcp.main import mcp\n",
        variables={"TOPDESK_URL": "http://127.0.0.1:9", "TOPDESK_USERNAME": "ada", "TOPDESK_PASSWORD": "secret"},
        calls=(("topdesk_get_incident", {"incident_id": "1"}),),
        ignored="0x[0-9a-f]+",
    ),
    PublicServer(
        "mcp-server-time==2026.10.19",
        MCPSERVER,
        'from mcp_server_time.server import create_server\n\nmcp = create_server("UTC")\n',
        calls=(
            ("get_current_time", {"timezone": "Mars"}),
            ("convert_time", {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"}),
        ),
        ignored=r"\d{4}-\d\d-\d\d",
    ),
    PublicServer(
        "mcp-server-git==2026.10.19",
        MCPSERVER,
        "from mcp_server_git.server import create_server\n\nmcp = create_server(None)\n",
        calls=(
            ("git_status", {"repo_path": "."}),
            ("git_log", {"repo_path": "."}),
            ("git_status", {"repo_path": "/nowhere"}),
        ),
    ),
    PublicServer(
        "mcp-server-fetch==2026.10.24",
        MCPSERVER,
        "from mcp_server_fetch.server import create_server\n\nmcp = create_server()\n",
        calls=(("fetch", {"url": "http://127.0.0.1:9/"}), ("fetch", {"url": "no URL"})),
    ),
    PublicServer(
        "excel-mcp-server==2.2.2",
        MCPSERVER,
        "from excel_mcp.config import Settings\nfrom excel_mcp.server import create_server\n\n"
        "mcp = create_server(Settings())\n",
        calls=(("describe_workbook", {"path": "missing.xlsx"}),),
    ),
    PublicServer(
        "duckduckgo-mcp-server==0.7.0",
        MCPSERVER,
        "from duckduckgo_mcp_server.server import mcp\n",
        calls=(("expand_link", {"token": "nothing"}), ("fetch_content", {"url": "http://127.0.0.1:9/"})),
    ),
    PublicServer(
        "markitdown-mcp==0.0.1a8",
        MCPSERVER,
        "from markitdown_mcp.__main__ import mcp\n",
        calls=(
            ("convert_to_markdown", {"uri": "data:text/html,<h1>Title</h1><p>Text</p>"}),
            ("convert_to_markdown", {"uri": "file:///nowhere"}),
        ),
    ),
    PublicServer(
        "awslabs-aws-documentation-mcp-server==1.2.3",
        MCPSERVER,
        "from awslabs.aws_documentation_mcp_server.server_aws import mcp\n",
        calls=(("read_documentation", {"url": "https://example.com/"}),),
    ),
    PublicServer(
        "mcp-yahoo-finance==0.2.0",
        PROXY,
        "mcp_yahoo_finance",
        calls=(("get_current_stock_price", {"symbol": 1}),),
    ),
    PublicServer("mcp-atlassian==0.23.1", FASTMCP, conflict="mcp>=1.27.0,<2.0.0"),
    PublicServer("awslabs-aws-iac-mcp-server==1.0.26", FASTMCP, conflict="fastmcp>=3.2.0,<4"),
    PublicServer("rootly-mcp-server==2.3.22", FASTMCP, conflict="fastmcp[code-mode]==3.4.7"),
    PublicServer("mcp-server-qdrant==0.8.1", FASTMCP, conflict="pydantic>=2.10.6,<2.12.0"),
    PublicServer("mcp-proxy==0.13.0", "the SDK", conflict="mcp>=1.27.1,<2"),
    PublicServer("arxiv-mcp-server==0.8.2", "the SDK", conflict="mcp>=1.27.0,<2.0.0"),
    PublicServer("yfmcp==0.14.0", "the SDK", conflict="mcp>=1.28.1,<2"),
    PublicServer("chroma-mcp==0.2.6", "the SDK", conflict="mcp[cli]==1.6.0"),
    PublicServer(
        "pymupdf4llm-mcp==1.28.0",
        "the SDK",
        "from pymupdf4llm_mcp.app import mcp\n",
        broken="No module named 'mcp.server.fastmcp'",
        note="It says that it works with each version of the SDK, and needs version 1.",
    ),
)
