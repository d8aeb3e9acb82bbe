//! The echo on the official Rust SDK, stateless, with JSON replies; it listens on MCP_PORT.

use std::env;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{schemars, tool, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    /// Any text.
    message: String,
}

struct Peer;

#[tool_router(server_handler)]
impl Peer {
    #[tool(description = "Give a message back.")]
    async fn echo(&self, Parameters(given): Parameters<Arguments>) -> String {
        given.message
    }
}

// On one core, more threads would only cost time to switch between threads.
fn main() {
    let threads = env::var("PEER_THREADS").map_or(1, |text| text.parse().expect("a number"));
    let runtime = if threads == 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
    };
    runtime.expect("a runtime").block_on(serve());
}

async fn serve() {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let service: StreamableHttpService<Peer, LocalSessionManager> =
        StreamableHttpService::new(|| Ok(Peer), Default::default(), config);
    let app = axum::Router::new()
        .nest_service("/mcp", service)
        .route("/readyz", axum::routing::get(|| async {}));
    let port = env::var("MCP_PORT").expect("MCP_PORT");
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}"))
        .await
        .expect("a free port");
    axum::serve(listener, app).await.expect("a server");
}
