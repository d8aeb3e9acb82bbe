// The echo on the official Go SDK, stateless, with JSON replies; it listens on MCP_PORT.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type arguments struct {
	Message string `json:"message" jsonschema:"Any text."`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, given arguments) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: given.Message}}}, nil, nil
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Give a message back."}, echo)
	http.Handle("/mcp", mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true},
	))
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("MCP_PORT"), nil))
}
