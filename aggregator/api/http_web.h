/*
 * aggregator/api/http_web.h - serves the web page. The page's files are in aggregator/web/. The
 * build puts them into the program as a table of http_web_file (aggregator/web/embed.cmake).
 * Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_API_HTTP_WEB_H
#define MRD_AGGREGATOR_API_HTTP_WEB_H

#include "httpd/httpd.h"

typedef struct {
    const char *name; /* path below aggregator/web/, for example "index.html" or "chart.js" */
    const char *type; /* the file's media type, for the header Content-Type */
    const char *etag; /* ETag of the file's content, with its quotes */
    mrd_bytes body;
} http_web_file;

extern const http_web_file mrd_http_web_files[];
extern const size_t mrd_http_web_n_files;

/* Handlers of GET / and GET /web/{file*}. They need no token, because the page contains no data.
 * The page requests its data from the API. */
mrd_err mrd_http_web_page(void *self, mrd_http_request *req, mrd_why *why);
mrd_err mrd_http_web_part(void *self, mrd_http_request *req, mrd_why *why);
/* GET /api/v1/openapi.json: returns docs/reference/openapi.json as it was at build time. */
mrd_err mrd_http_web_spec(void *self, mrd_http_request *req, mrd_why *why);

#endif
