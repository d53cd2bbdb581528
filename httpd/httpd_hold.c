/*
 * httpd/httpd_hold.c - suspends requests that wait for another thread, which identifies the caller
 * or computes the answer.
 *
 * The connections of such requests are suspended, so that the server thread never waits. A
 * connection has at most one such request.
 */
#include "httpd/httpd_int.h"

/* Resumes a suspended request and removes it from the list. The caller holds the lock. */
static void
go_on(mrd_http_request *req)
{
    *req->link = req->next;
    if (req->next != NULL)
        req->next->link = req->link;
    req->suspended = false;
    MHD_resume_connection(req->connection);
}

uint64_t
mrd_httpd_wakes(mrd_httpd *httpd)
{
    uint64_t n;

    pthread_mutex_lock(&httpd->lock);
    n = httpd->wakes;
    pthread_mutex_unlock(&httpd->lock);
    return n;
}

/* Suspends the request's connection until `end` or the next mrd_httpd_wake. If there was a wake
 * since the caller read `wakes`, the connection is resumed at once. Returns false if the server is
 * stopping. */
static bool
suspend_until(mrd_http_request *req, uint64_t wakes, mrd_local_ns end)
{
    mrd_httpd *httpd = req->httpd;
    bool ok;

    pthread_mutex_lock(&httpd->lock);
    ok = !httpd->stopping;
    if (ok) {
        req->was_held = req->suspended = true;
        req->wake_at = end;
        req->next = httpd->held;
        req->link = &httpd->held;
        if (req->next != NULL)
            req->next->link = &req->next;
        httpd->held = req;
        MHD_suspend_connection(req->connection);
        if (httpd->wakes != wakes)
            go_on(req);
    }
    pthread_mutex_unlock(&httpd->lock);
    return ok;
}

bool
mrd_httpd_hold(mrd_http_request *req, uint64_t wakes)
{
    mrd_local_ns now = mrd_local_now();

    if (req->hold_end.ns == 0)
        req->hold_end.ns = now.ns + req->httpd->options.hold_seconds * MRD_SEC;
    return now.ns < req->hold_end.ns && suspend_until(req, wakes, req->hold_end);
}

uint64_t
mrd_http_wakes(const mrd_http_request *req)
{
    return mrd_httpd_wakes(req->httpd);
}

bool
mrd_http_wait(mrd_http_request *req, uint64_t wakes, mrd_dur_ns at_most)
{
    mrd_local_ns now = mrd_local_now();
    mrd_local_ns end = { INT64_MAX };

    if (req->waits_since.ns == 0)
        req->waits_since = now;
    if (at_most > 0)
        end.ns = req->waits_since.ns + at_most;
    return now.ns < end.ns && suspend_until(req, wakes, end);
}

bool
mrd_http_has_waited(const mrd_http_request *req)
{
    return req->waits_since.ns != 0;
}

void
mrd_httpd_hold_end(mrd_httpd *httpd, bool all)
{
    mrd_local_ns now = mrd_local_now();
    mrd_http_request *next;

    for (mrd_http_request *req = httpd->held; req != NULL; req = next) {
        next = req->next;
        if (all || now.ns >= req->wake_at.ns)
            go_on(req);
    }
}

void
mrd_httpd_wake(mrd_httpd *httpd)
{
    pthread_mutex_lock(&httpd->lock);
    httpd->wakes++;
    mrd_httpd_hold_end(httpd, true);
    pthread_mutex_unlock(&httpd->lock);
}

void
mrd_httpd_hold_forget(mrd_http_request *req)
{
    pthread_mutex_lock(&req->httpd->lock);
    if (req->suspended) {
        *req->link = req->next;
        if (req->next != NULL)
            req->next->link = req->link;
        req->suspended = false;
    }
    pthread_mutex_unlock(&req->httpd->lock);
}
