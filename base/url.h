/*
 * base/url.h - splits an address into its parts: "tls+tcp://host:7770", "http://[::1]:7780/api",
 * "inproc://name", or "host:port" without a scheme. It follows the parts of RFC 3986 that our
 * addresses need. %XX is not decoded.
 *
 * The parts borrow from the text. Threads: pure.
 */
#ifndef MRD_BASE_URL_H
#define MRD_BASE_URL_H

#include "base/buf.h"

typedef struct {
    mrd_str scheme; /* for example "tls+tcp"; empty if the address has no scheme */
    /* The host as written, without the brackets of an IPv6 address. May be "*" or empty. */
    mrd_str host;
    mrd_str rest;  /* The text from the first '/', '?' or '#' after the host. May be empty. */
    int32_t port;  /* 0 to 65535, or -1 if the address has no port */
    bool has_user; /* "name:password@" precedes the host */
} mrd_url;

/*
 * Splits an address. On an error *ret_url is unchanged.
 * Errors: SYNTAX for a missing scheme before "://", a missing bracket, spaces or control characters
 * in the host, a ':' without a port, and an IPv6 address without brackets.
 */
mrd_err mrd_url_parse(const char *text, mrd_url *ret_url);
/* Returns true if the address has this scheme, with or without TLS. "tcp" also matches
 * "tls+tcp". */
bool mrd_url_is(const mrd_url *url, const char *scheme);
/* Returns true if the address can be reached only from this machine: 127.0.0.0/8, ::1 or
 * "localhost". */
bool mrd_url_is_loopback(const mrd_url *url);
/* Writes the host as text. Returns false if it does not fit. */
bool mrd_url_host(const mrd_url *url, char *host, size_t size);
/* Splits an address to listen at, such as "127.0.0.1:7780" or "[::1]:7780". Returns false if there
 * are other parts, or if the host does not fit. */
bool mrd_url_listen(const char *text, char *host, size_t size, uint16_t *ret_port);

#endif
