/* A store with one session whose manifest is these bytes: read as at the start of the aggregator,
 * written again, read again. What was read once is read again with the same nodes, triggers and
 * artifacts; what cannot be read is left alone and keeps artifacts from being removed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/hub.h"
#include "base/log.h"
#include "base/out.h"

#define NAME "20260101-000000-0001"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hub *
recover(const char *store)
{
    hub *h = calloc(1, sizeof(*h));

    if (h == NULL)
        abort();
    h->sync = MRD_SYNC_NONE;
    if (hub_init(h, store, NULL) != MRD_OK || session_recover(h, NULL) != MRD_OK ||
        h->n_sessions + h->unreadable != 1)
        abort();
    return h;
}

static void
done(hub *h)
{
    hub_fini(h);
    free(h);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/mrd-fuzz-XXXXXX", path[96];
    static bool quiet;
    hub *first, *second;

    if (!quiet)
        mrd_log_init("fuzz", open("/dev/null", O_WRONLY | O_CLOEXEC), MRD_LOG_ERROR, false);
    quiet = true;
    if (mkdtemp(dir) == NULL)
        abort();
    snprintf(path, sizeof(path), "%s/sessions/" NAME "/session.json", dir);
    if (mrd_write_file(path, (mrd_bytes){ data, size }, 0600, NULL) != MRD_OK)
        abort();
    first = recover(dir);
    if (first->n_sessions == 1) {
        const hub_session *a = first->sessions[0], *b;

        if (session_save(first, a->id, NULL) != MRD_OK)
            abort();
        second = recover(dir);
        if (second->n_sessions != 1)
            abort();
        b = second->sessions[0];
        if (a->n_parts != b->n_parts || a->n_triggers != b->n_triggers ||
            a->n_artifacts != b->n_artifacts || a->state != b->state)
            abort();
        done(second);
    }
    done(first);
    mrd_remove_tree(dir);
    return 0;
}
