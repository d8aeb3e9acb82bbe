// An identity provider (OpenID Connect) on 127.0.0.1: node idp.mjs PORT CALLBACK RESOURCE
// It prints a line when it listens. Its pages accept any user and any password.
import { Provider } from "oidc-provider";

const [port, callback, resource] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "anyreplica",
      client_secret: "the-secret-of-the-client-at-the-identity-provider",
      redirect_uris: [callback],
      grant_types: ["authorization_code", "refresh_token"],
    },
  ],
  scopes: ["openid", "offline_access", "mcp", "reports:read"],
  features: {
    devInteractions: { enabled: true },
    introspection: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "mcp reports:read",
        audience: resource,
        accessTokenFormat: process.env.IDP_TOKENS ?? "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  pkce: { required: () => true },
  ttl: {
    AccessToken: Number(process.env.IDP_ACCESS_SECONDS ?? 300),
    AuthorizationCode: 60,
    Grant: 3600,
    IdToken: 300,
    Interaction: 600,
    RefreshToken: 3600,
    Session: 3600,
  },
  cookies: { keys: ["a-key-of-the-cookies-in-these-tests"] },
});
provider.listen(Number(port), "127.0.0.1", () => console.log(`listening on ${port}`));
