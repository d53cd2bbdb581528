#include "aggregator/api/http_web.h"

/* Content-Security-Policy of the web page. It forbids content of other origins, inline code and
 * framing. Cross-Origin-Opener-Policy: same-origin is not sent, because the page opens a Perfetto
 * window and must receive its messages. */
#define POLICY                                                                                     \
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors " \
    "'none'"

static mrd_err
reply(mrd_http_request *req, mrd_str name, mrd_why *why)
{
    for (size_t i = 0; i < mrd_http_web_n_files; i++) {
        const http_web_file *file = &mrd_http_web_files[i];

        if (!mrd_str_is(name, file->name))
            continue;
        mrd_http_set_header(req, "Content-Security-Policy", POLICY);
        mrd_http_set_header(req, "Referrer-Policy", "no-referrer");
        return mrd_http_reply_static(req, file->type, file->etag, file->body);
    }
    return mrd_why_set(why, MRD_NOTFOUND, 0, "the page has no file '" MRD_STR_FMT "'",
                       MRD_STR_ARG(name));
}

mrd_err
mrd_http_web_page(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return reply(req, MRD_STR("index.html"), why);
}

mrd_err
mrd_http_web_part(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return reply(req, mrd_http_param(req, "file"), why);
}

/* Handles GET /api/v1/openapi.json. The document is an entry of the table of page files. GET
 * /web/{file*} cannot return this entry, because its name contains "..". */
mrd_err
mrd_http_web_spec(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return reply(req, MRD_STR("../../docs/reference/openapi.json"), why);
}
