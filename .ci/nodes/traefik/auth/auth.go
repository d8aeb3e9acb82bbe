// Package auth takes the place of a library that is not published as a module. With it, passwords let nobody in.
package auth

import "net/http"

// CheckSecret accepts no password.
func CheckSecret(_, _ string) bool { return false }

// DigestAuthParams finds nothing.
func DigestAuthParams(string) map[string]string { return nil }

// BasicAuth refuses everybody.
type BasicAuth struct {
	Realm   string
	Secrets func(user, realm string) string
}

// RequireAuth refuses a request.
func (*BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuth refuses everybody.
type DigestAuth struct{}

// NewDigestAuthenticator returns one that refuses everybody.
func NewDigestAuthenticator(_ string, _ func(user, realm string) string) *DigestAuth {
	return &DigestAuth{}
}

// CheckAuth accepts no user.
func (*DigestAuth) CheckAuth(*http.Request) (string, *string) { return "", nil }

// RequireAuth refuses a request.
func (*DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// RequireAuthStale refuses a request.
func (*DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) { refuse(w) }

func refuse(w http.ResponseWriter) {
	http.Error(w, "this build of Traefik has no passwords", http.StatusUnauthorized)
}
