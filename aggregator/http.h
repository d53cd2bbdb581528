/*
 * aggregator/http.h - the API of the aggregator over aggregator/httpd.h. docs/http.md is its
 * manual; the table in http.c is the list. Inside aggregator/ only.
 */
#ifndef MRD_AGGREGATOR_HTTP_H
#define MRD_AGGREGATOR_HTTP_H

#include "aggregator/aggregator.h"
#include "aggregator/httpd.h"
#include "aggregator/hub.h"

typedef struct http_api http_api;

mrd_err http_api_open(hub *h, const mrd_aggregator_options *o, http_api **ret_api, mrd_why *why);
void http_api_close(http_api *api); /* NULL is fine */
uint16_t http_api_port(const http_api *api);
/* Of the certificate and key. */
bool http_api_changed(http_api *api);
mrd_err http_api_reload(http_api *api, mrd_why *why);
bool http_api_trouble(http_api *api, mrd_why *ret_why);

/* What /metrics answers, in text 0.0.4 or as OpenMetrics (http_metrics.c). */
void http_metrics(hub *h, mrd_httpd *httpd, bool open, mrd_buf *to);
/* The API, one row per path and method; docs/openapi.json describes each. */
extern const mrd_http_route http_routes[];
extern const size_t http_n_routes;
/* Members of the body that starts a session, and of a trigger's; NULL-terminated. */
extern const char *const http_session_members[], *const http_trigger_members[];
/* A session's wishes from that body; strings borrow from it and from require. Errors: INVALID,
 * RANGE, TYPE, LIMIT, NOMEM; w->select is the caller's in every case. */
mrd_err http_session_wish(mrd_json *body, char require[64], session_wish *w, mrd_why *why);
/* GET …/profile (http_profile.c). */
extern const char *const http_profile_query[];
mrd_err http_formats(void *self, mrd_http_request *req, mrd_why *why);
mrd_err http_profile(void *self, mrd_http_request *req, mrd_why *why);
mrd_err http_profile_file(void *self, mrd_http_request *req, mrd_why *why);

/* Each comma separated word of a query parameter. Errors: NOMEM. */
mrd_err http_query_list(mrd_http_request *req, const char *name, mrd_strlist *list, mrd_why *why);
/* GET …/clocks, …/clocks/{node} (http_clocks.c). */
extern const char *const http_clocks_query[], *const http_clock_picture_query[];
mrd_err http_clocks(void *self, mrd_http_request *req, mrd_why *why);
mrd_err http_clock_picture(void *self, mrd_http_request *req, mrd_why *why);

struct http_api {
    hub *h;
    mrd_httpd *httpd;
};

/* The session of {id} with the lock held; on NOTFOUND the lock is not held. */
mrd_err http_session(http_api *api, mrd_http_request *req, hub_session **ret_session, mrd_why *why);

#endif
