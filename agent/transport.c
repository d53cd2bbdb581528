#include "agent/transport.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "base/num.h"

typedef struct {
    mrd_transport pub; /* first */
    mrd_link *link;
} over_link;

static mrd_link *
link_of(mrd_transport *t)
{
    return ((over_link *) t)->link;
}

static mrd_err
submit(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_submit(link_of(t), tag, frame);
}

static mrd_err
submit_urgent(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_submit_urgent(link_of(t), tag, frame);
}

static mrd_err
answer(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_answer(link_of(t), tag, frame);
}

static unsigned
free_slots(mrd_transport *t)
{
    return mrd_link_free_slots(link_of(t));
}

static bool
next(mrd_transport *t, int timeout_ms, mrd_link_event *ret_event)
{
    return mrd_link_next(link_of(t), timeout_ms, ret_event);
}

static void
done(mrd_transport *t, mrd_link_event *event)
{
    (void) t;
    mrd_link_event_done(event);
}

static int
fd(mrd_transport *t)
{
    return mrd_link_fd(link_of(t));
}

static void
close_link(mrd_transport *t)
{
    mrd_link_close(link_of(t));
    free(t);
}

static mrd_err
reload(mrd_transport *t, mrd_why *why)
{
    return mrd_link_reload(link_of(t), why);
}

static bool
changed(mrd_transport *t)
{
    return mrd_link_changed(link_of(t));
}

static bool
trouble(mrd_transport *t, mrd_why *ret_why)
{
    return mrd_link_trouble(link_of(t), ret_why);
}

mrd_err
mrd_transport_link(const mrd_link_options *options, mrd_transport **ret_transport, mrd_why *why)
{
    over_link *o = calloc(1, sizeof(*o));
    mrd_err err;

    if (o == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "connection to the aggregator");
    o->pub = (mrd_transport){ submit, submit_urgent, answer, free_slots, next,   done,
                              fd,     close_link,    reload, changed,    trouble };
    if ((err = mrd_link_open(options, &o->link, why)) != MRD_OK) {
        free(o);
        return err;
    }
    *ret_transport = &o->pub;
    return MRD_OK;
}

/* tcp://host:7770 to tcp://host:7771; others give NULL. */
static char *
control_of(const char *data_url)
{
    const char *colon = strrchr(data_url, ':');
    char text[1024];
    int64_t port;

    if (colon == NULL || mrd_num_i64(mrd_str_of(colon + 1), &port) != MRD_OK || port < 1 ||
        port > 65534 ||
        snprintf(text, sizeof(text), "%.*s:%lld", (int) (colon - data_url), data_url,
                 (long long) port + 1) >= (int) sizeof(text))
        return NULL;
    return strdup(text);
}

static bool
is_local(const char *url)
{
    return strncmp(url, "inproc:", 7) == 0 || strncmp(url, "ipc:", 4) == 0 ||
           strstr(url, "://127.") != NULL || strstr(url, "://localhost:") != NULL ||
           strstr(url, "://[::1]") != NULL;
}

mrd_err
mrd_agent_link_options(mrd_agent_options *o, mrd_link_options *ret_link, mrd_why *why)
{
    if (strstr(o->data_url, "://") == NULL || strncmp(o->data_url, "http", 4) == 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--aggregator '%s': expected tcp://HOST:7770, or tls+tcp://HOST:7770",
                           o->data_url);
    if (!is_local(o->data_url) && strncmp(o->data_url, "tls+tcp:", 8) != 0 && !o->insecure)
        return mrd_why_set(why, MRD_AUTH, 0,
                           "'%s' is not on this machine and not secured: use tls+tcp:// with "
                           "--tls-ca, or --insecure",
                           o->data_url);
    if (o->control_url == NULL)
        o->control_url = control_of(o->data_url);
    *ret_link = (mrd_link_options){ .data_url = o->data_url,
                                    .control_url = o->control_url,
                                    .tls = { o->tls_ca, o->tls_cert, o->tls_key, o->tls_name },
                                    .window = (unsigned) o->window };
    return MRD_OK;
}
