/*
 * aggregator/api/http.h - the HTTP API of the aggregator, which uses the HTTP server httpd/httpd.h.
 * docs/reference/http.md describes the API. The table in http.c lists its routes. Internal to
 * aggregator/.
 */
#ifndef MRD_AGGREGATOR_API_HTTP_H
#define MRD_AGGREGATOR_API_HTTP_H

#include "aggregator/access/join.h"
#include "aggregator/access/oidc.h"
#include "aggregator/access/token_review.h"
#include "aggregator/api/made.h"
#include "aggregator/loop/loop.h"
#include "base/metrics.h"
#include "httpd/httpd.h"
#include "pki/cert_times.h"

typedef struct http_api http_api;

enum { MRD_HTTP_CERT_FILES = 4 };

typedef struct {
    const char *address;
    uint16_t port;          /* port of the HTTP server; 0 means any free port */
    const char *cert, *key; /* PEM files for TLS: both, or neither for plain HTTP */
    /* host names that a request may have in its Host header, besides addresses and localhost; NULL
     * means none */
    const char *names;
    mrd_auth *auth; /* checks tokens of a token file; NULL means that everyone has all rights */
    /* verifies tokens of an OIDC issuer, in addition to tokens of `auth`; NULL means not used */
    mrd_oidc *oidc;
    /* verifies tokens of Kubernetes, in addition to tokens of `auth`; NULL means not used */
    mrd_token_review *review;
    mrd_join *join; /* signs certificates of nodes; NULL means that nodes cannot enrol */
    /* Certificate files. /metrics reports until when they are valid. A path is NULL if its option
     * was not given. */
    mrd_cert_file files[MRD_HTTP_CERT_FILES];
    /* maximum number of segments (files) of a node's journal in an answer; 0 means 100,000 */
    size_t segments_max;
    /* number of bytes that must stay free on the store's disk when a profile is made on request */
    int64_t disk_reserve;
} http_api_options;

mrd_err mrd_http_api_open(mrd_loop *loop, const http_api_options *o, http_api **ret_api,
                          mrd_why *why);
void mrd_http_api_close(http_api *api); /* ignores NULL */
uint16_t mrd_http_api_port(const http_api *api);
/* Check and reload the HTTP server's certificate and key, and get its next TLS error, as the
 * functions mrd_httpd_* do. */
bool mrd_http_api_changed(http_api *api);
mrd_err mrd_http_api_reload(http_api *api, mrd_why *why);
bool mrd_http_api_next_error(http_api *api, mrd_why *ret_why);

/* Writes the metrics that GET /metrics returns: OpenMetrics if `open`, otherwise Prometheus text
 * 0.0.4 (http_metrics.c). */
void mrd_http_metrics(mrd_loop *loop, mrd_httpd *httpd, mrd_token_review *review,
                      const mrd_cert_file *files, size_t n_files, bool open,
                      mrd_buf *to); /* review may be NULL */
/* The routes of the API, one row per path and method. docs/reference/openapi.json describes each of
 * them. */
extern const mrd_http_route mrd_http_routes[];
extern const size_t mrd_http_n_routes;
/* Handlers of GET and DELETE /api/v1/sessions, and the names of their query parameters
 * (http_sessions.c). */
extern const char *const mrd_http_sessions_query[], *const mrd_http_sessions_filter[];
mrd_err mrd_http_sessions(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_sessions_delete(void *self, mrd_http_request *req, mrd_why *why);
/* Handlers of GET .../profile, and the names of their query parameters (http_profile.c). */
extern const char *const mrd_http_profile_query[];
mrd_err mrd_http_formats(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_profile(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_profile_file(void *self, mrd_http_request *req, mrd_why *why);

/* Handlers of GET /api/v1/models and GET /api/v1/sessions/{id}/models (http_models.c). */
mrd_err mrd_http_models(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_hangs(void *self, mrd_http_request *req, mrd_why *why);
extern const char *const mrd_http_hangs_query[];
/* Handlers of GET /api/v1/jobs and GET /api/v1/jobs/{id} (http_jobs.c). */
mrd_err mrd_http_jobs(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_job(void *self, mrd_http_request *req, mrd_why *why);
extern const char *const mrd_http_jobs_query[];
mrd_err mrd_http_session_models(void *self, mrd_http_request *req, mrd_why *why);

/* Handlers of GET /api/v1/sessions/{id}/clocks and .../clocks/{node} (http_clocks.c). */
extern const char *const mrd_http_clocks_query[], *const mrd_http_clock_picture_query[];
mrd_err mrd_http_clocks(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_clock_picture(void *self, mrd_http_request *req, mrd_why *why);

struct http_api {
    mrd_loop *loop;
    mrd_httpd *httpd;
    mrd_auth *auth;
    mrd_oidc *oidc;
    mrd_token_review *review;
    mrd_join *join;
    mrd_made *made; /* cache of profiles in formats that a session's merge does not write */
    mrd_cert_file files[MRD_HTTP_CERT_FILES];
    size_t segments_max;
};

/* Identifies the holder of a token (http_rights.c). The token may be from the token file, from a
 * session's owner, from the OIDC issuer, or from Kubernetes. Errors: AUTH, AGAIN (the holder cannot
 * be identified now), BUSY (the request must wait for the answer of another server). */
mrd_err mrd_http_identify(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller,
                          mrd_why *why);
/* Returns the owner of the session. The result contains pointers into the session. */
mrd_ownership mrd_http_ownership(const mrd_session *session);
/* Returns true if the caller may do the route's action on the session in this line of the list of
 * sessions. */
bool mrd_http_may_line(const mrd_http_request *req, const mrd_session_line *line);
/* Returns a verdict of the hang watch as JSON. */
mrd_json *mrd_http_hang_json(const mrd_overview *overview, const mrd_hang_verdict *verdict);
/* Adds a time of the aggregator's monotonic clock as wall clock time, converted with the current
 * difference of the two clocks. `key` has the time as text, and `key_ns` as a number. */
void mrd_http_set_time(mrd_json *json, const mrd_overview *overview, const char *key,
                       const char *key_ns, mrd_local_ns at);
/* Writes the metrics of jobs (job_metrics.c). */
void mrd_http_job_metrics(const mrd_overview *overview, mrd_metrics_text *text);
/* Returns the owner of a job that makes no progress. The result contains pointers into `line`. */
mrd_ownership mrd_http_hang_ownership(const mrd_hang_line *line);
/* Handlers of POST /api/v1/invitations, /api/v1/certificates and /api/v1/certificates/account
 * (http_join.c). */
mrd_err mrd_http_invite(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_certificate(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_account_certificate(void *self, mrd_http_request *req, mrd_why *why);
/* Handler of GET /api/v1/self. */
mrd_err mrd_http_self(void *self, mrd_http_request *req, mrd_why *why);

/* Gets a copy of the session that {id} in the request's path names. The caller releases the copy.
 * On routes that only read, {id} may be "latest", the newest session that the caller may read.
 * Errors: NOTFOUND. The message is the same for an unknown session and for one that the caller may
 * not read. */
mrd_err mrd_http_session(http_api *api, mrd_http_request *req, mrd_session_view **ret_view,
                         mrd_why *why);

#endif
