/*
 * aggregator/httpd_hold.c - requests of whom it is being asked elsewhere who they are: their
 * connections are suspended, so that the server thread never waits. At most one for each connection.
 */
#include "aggregator/httpd_int.h"

/* Lock held. */
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
mrd_httpd_identifications(mrd_httpd *h)
{
    uint64_t n;

    pthread_mutex_lock(&h->lock);
    n = h->identifications;
    pthread_mutex_unlock(&h->lock);
    return n;
}

bool
mrd_httpd_hold(mrd_http_request *req, uint64_t identifications)
{
    mrd_httpd *h = req->httpd;
    mrd_local_ns now = mrd_local_now();
    bool ok;

    if (req->hold_end.ns == 0)
        req->hold_end.ns = now.ns + h->options.hold_seconds * MRD_SEC;
    pthread_mutex_lock(&h->lock);
    ok = !h->stopping && now.ns < req->hold_end.ns;
    if (ok) {
        req->was_held = req->suspended = true;
        req->next = h->held;
        req->link = &h->held;
        if (req->next != NULL)
            req->next->link = &req->next;
        h->held = req;
        MHD_suspend_connection(req->connection);
        if (h->identifications != identifications) /* meanwhile: perhaps this one */
            go_on(req);
    }
    pthread_mutex_unlock(&h->lock);
    return ok;
}

void
mrd_httpd_hold_end(mrd_httpd *h, bool all)
{
    mrd_local_ns now = mrd_local_now();
    mrd_http_request *next;

    for (mrd_http_request *req = h->held; req != NULL; req = next) {
        next = req->next;
        if (all || now.ns >= req->hold_end.ns)
            go_on(req);
    }
}

void
mrd_httpd_identified(mrd_httpd *httpd)
{
    pthread_mutex_lock(&httpd->lock);
    httpd->identifications++;
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
