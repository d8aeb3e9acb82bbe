// Package ext takes the place of a folder that is in Traefik's repository and not in its module.
package ext

// HTTP adds nothing.
type HTTP struct{}

// Router adds nothing.
type Router struct{}
