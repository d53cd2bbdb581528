/* GET /api/v1/sessions/{id}/clocks and .../clocks/{node}: the clocks of a session, which may still
 * be recording. */
#include "aggregator/api/http.h"

#include <stdlib.h>

#include "aggregator/clock/clock_report.h"
#include "base/num.h"
#include "timesync/clockplot.h"

/* Returns the path of the directory of the request's session, which the caller frees. If it fails,
 * returns NULL and sets *ret_err. */
static char *
session_dir(http_api *api, mrd_http_request *req, mrd_err *ret_err, mrd_why *why)
{
    char *dir = NULL;
    mrd_session_view *view;

    if ((*ret_err = mrd_http_session(api, req, &view, why)) != MRD_OK)
        return NULL;
    dir = mrd_session_store_path(mrd_loop_store(api->loop), view->s->text, ".");
    mrd_session_view_unref(view);
    if (dir == NULL)
        *ret_err = mrd_why_set(why, MRD_NOMEM, 0, "clocks");
    return dir;
}

static mrd_err
reply_report(mrd_http_request *req, const mrd_clock_report *report, mrd_why *why)
{
    const char *format = mrd_http_query(req, "format");
    mrd_buf text = { 0 };
    mrd_json *doc;

    if (format == NULL || strcmp(format, "json") == 0) {
        doc = mrd_clock_report_json(report);
        return doc == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "clocks")
                           : mrd_http_reply_json(req, 200, doc);
    }
    if (strcmp(format, "text") != 0)
        return mrd_why_set(why, MRD_INVALID, 0, "unknown format '%.40s': one of json, text",
                           format);
    mrd_clock_report_text(report, &text);
    return mrd_http_reply_text(req, 200, "text/plain; charset=utf-8", &text);
}

const char *const mrd_http_clocks_query[] = { "format", "instance_id", NULL };

mrd_err
mrd_http_clocks(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_clock_report report = { 0 };
    mrd_strlist only = { 0 };
    mrd_err err;
    char *dir = session_dir(self, req, &err, why);

    if (dir != NULL && (err = mrd_http_query_list(req, "instance_id", &only, why)) == MRD_OK &&
        (err = mrd_clock_report_read(dir, &only, &report, why)) == MRD_NOTFOUND)
        mrd_why_set(why, err, 0, "nothing of %s was recorded in this session",
                    only.n == 0   ? "any node"
                    : only.n == 1 ? "that node"
                                  : "those nodes");
    if (dir != NULL && err == MRD_OK)
        err = reply_report(req, &report, why);
    mrd_clock_report_fini(&report);
    mrd_strlist_fini(&only);
    free(dir);
    return err;
}

/* Gets the index of the boot of the node for which the clock is drawn. The query may choose a boot
 * by its key; otherwise it is the first boot. */
static mrd_err
boot_of(mrd_http_request *req, size_t n, size_t *ret_boot, mrd_why *why)
{
    const char *text = mrd_http_query(req, "boot");
    uint64_t boot = 1;

    if (text != NULL && (mrd_num_u64(mrd_str_of(text), &boot) != MRD_OK || boot == 0 || boot > n))
        return mrd_why_set(why, MRD_RANGE, 0, "boot must be 1 to %zu", n);
    *ret_boot = (size_t) boot - 1;
    return MRD_OK;
}

const char *const mrd_http_clock_picture_query[] = { "boot", NULL };

mrd_err
mrd_http_clock_picture(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_str node = mrd_http_param(req, "node");
    mrd_clock_report report = { 0 };
    mrd_strlist only = { 0 };
    mrd_buf svg = { 0 };
    const mrd_boot_clock *clock;
    size_t boot = 0;
    mrd_err err;
    char *dir = session_dir(self, req, &err, why);

    if (dir != NULL && (err = mrd_strlist_add(&only, node)) == MRD_OK &&
        (err = mrd_clock_report_read(dir, &only, &report, why)) == MRD_NOTFOUND)
        mrd_why_set(why, err, 0, "nothing of node '" MRD_STR_FMT "' was recorded in this session",
                    MRD_STR_ARG(node));
    if (dir != NULL && err == MRD_OK &&
        (err = boot_of(req, report.v[0].clock.n, &boot, why)) == MRD_OK) {
        clock = &report.v[0].clock.v[boot];
        if (clock->align == NULL)
            err = mrd_why_set(why, MRD_NOTFOUND, 0, "no picture: %s", clock->why.text);
        else if ((err = mrd_clock_svg(clock->align, clock->probes, clock->n_probes, &svg)) ==
                 MRD_OK)
            err = mrd_http_reply_text(req, 200, "image/svg+xml", &svg);
    }
    mrd_buf_fini(&svg);
    mrd_clock_report_fini(&report);
    mrd_strlist_fini(&only);
    free(dir);
    return err;
}
