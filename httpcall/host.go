package httpcall

import (
	"net/url"
	"strings"
)

// HostLimit returns the name of the limit that belongs to the host of an
// address: the host in small letters, with the port unless it is the scheme's
// own, as "api.stripe.com" or "127.0.0.1:8080"; "" if the address has no host.
func HostLimit(address string) string {
	head, _ := splitAuthority(address)
	u, err := url.Parse(head)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := u.Port()
	if port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		return host
	}
	return host + ":" + port
}
