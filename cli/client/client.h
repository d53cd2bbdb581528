/*
 * cli/client/client.h - the HTTP client of the command line: JSON requests and resumable downloads
 * over HTTP(S), with a bearer token. Only client.c uses libcurl. Proxies and NO_PROXY work as in
 * curl.
 *
 * Defaults of the options come from cli/client/client_config.h.
 *
 * Every failure is one message that says what to check: no listener, a wrong certificate, a missing
 * token, or the server's own problem text.
 */
#ifndef MRD_CLI_CLIENT_CLIENT_H
#define MRD_CLI_CLIENT_CLIENT_H

#include "base/clock.h"
#include "base/conf/conf.h"
#include "base/conf/json.h"

typedef struct {
    char *server, *token_file, *ca_file;
    mrd_dur_ns timeout;
    bool insecure; /* if true, a token may be sent over plain HTTP */
    bool json;     /* if true, the command prints the reply as JSON instead of a table */
} mrd_client_options;

#define MRD_CLIENT_OPTION_ROWS(settings, member)                                                   \
    { .type = MRD_OPT_HEAD, .help = "Aggregator" },                                                \
        { .name = "server",                                                                        \
          .letter = 's',                                                                           \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.server),                                             \
          .arg = "URL",                                                                            \
          .env = "MERIDIAN_SERVER",                                                                \
          .help = "where the aggregator answers HTTP (default: that of "                           \
                  "/etc/meridian/client.json, else http://127.0.0.1:7780)" },                      \
        { .name = "token-file",                                                                    \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.token_file),                                         \
          .arg = "FILE",                                                                           \
          .env = "MERIDIAN_TOKEN_FILE",                                                            \
          .help = "file with the bearer token (default: that of /etc/meridian/client.json, "       \
                  "~/.config/meridian/token, or the one that a job's prolog wrote for you)" },     \
        { .name = "ca-file",                                                                       \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.ca_file),                                            \
          .arg = "FILE",                                                                           \
          .env = "MERIDIAN_CA_FILE",                                                               \
          .help = "certificate authority of the aggregator" },                                     \
        { .name = "insecure",                                                                      \
          .type = MRD_OPT_BOOL,                                                                    \
          .offset = offsetof(settings, member.insecure),                                           \
          .env = "MERIDIAN_INSECURE",                                                              \
          .help = "send the token over plain HTTP too" },                                          \
        { .name = "timeout",                                                                       \
          .type = MRD_OPT_DUR,                                                                     \
          .offset = offsetof(settings, member.timeout),                                            \
          .def = "10s",                                                                            \
          .min = MRD_MS,                                                                           \
          .max = 3600 * MRD_SEC,                                                                   \
          .arg = "DURATION",                                                                       \
          .help = "how long to wait for an answer" },                                              \
    {                                                                                              \
        .name = "json", .type = MRD_OPT_BOOL, .offset = offsetof(settings, member.json),           \
        .help = "print JSON"                                                                       \
    }

typedef struct mrd_client mrd_client;

mrd_err mrd_client_open(const mrd_client_options *options, mrd_client **ret_client, mrd_why *why);
void mrd_client_close(mrd_client *client); /* ignores NULL */

/*
 * Sends one request with `body` (borrowed, may be NULL) as JSON. *ret_doc (may be NULL) is the
 * reply, which the caller owns. A status other than 2xx is an error with the server's own message.
 * Redirections are not followed.
 */
mrd_err mrd_client_call(mrd_client *client, const char *method, const char *path,
                        const mrd_json *body, mrd_json **ret_doc, mrd_why *why);

/* Requests a small text with GET and appends it to *to. Errors: as mrd_client_call. */
mrd_err mrd_client_text(mrd_client *client, const char *path, mrd_buf *to, mrd_why *why);

/*
 * Downloads `path` of the server into the file `to`. Received data is first stored in "<to>.part".
 * A later call continues that file if the server still has the same version (ETag). `progress` may
 * be NULL; if it returns false, the download is cancelled. *ret_size may be NULL.
 */
mrd_err mrd_client_download(mrd_client *client, const char *path, const char *to,
                            bool (*progress)(void *self, uint64_t done, uint64_t total), void *self,
                            uint64_t *ret_size, mrd_why *why);

/* Appends text to *to, percent-encoded for use as one path component or query value of a URL. */
void mrd_client_escape(mrd_buf *to, const char *text);

#endif
