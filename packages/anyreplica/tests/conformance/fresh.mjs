// Each request uses a new connection, so that it reaches the next replica. Node would keep some connections alive.
import { createRequire } from "node:module";
import http from "node:http";

const suite = createRequire(new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url));
const { Agent, setGlobalDispatcher } = suite("undici");
setGlobalDispatcher(new Agent({ pipelining: 0 }));
http.globalAgent = new http.Agent({ keepAlive: false });
