/* agent/rings/unread.c - counts ring files that are not read, by reason. Each search finds such a
 * file again. A file that no search found for some seconds was removed, or is read now, and is not
 * counted any more. */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/rings/drain_int.h"
#include "base/conf/agent_waits.h"
#include "base/hash.h"
#include "base/plain.h"

#define NEAR 32u /* number of consecutive slots of the table that are searched for one file */

static uint64_t
key_of(unsigned dir, const char *file_name)
{
    uint64_t key = mrd_hash64(file_name, strlen(file_name), mrd_hash_seed() + dir);

    return key == 0 ? 1 : key;
}

/* Stores why a ring file is not read, in the file's slot. A file without a slot gets the slot that
 * was used least recently. Returns true if the file or its reason is new. */
bool
mrd_drain_unread(mrd_drain *drain, unsigned dir, const char *file_name, mrd_unread_why why)
{
    uint64_t key = key_of(dir, file_name);
    unread_ring *at = NULL;
    bool is_new = true;

    for (size_t i = 0; i < NEAR; i++) {
        unread_ring *u = &drain->unread[(key + i) % MRD_DRAIN_UNREAD];

        if (u->key == key) {
            at = u;
            is_new = u->why != why;
            break;
        }
        if (at == NULL || mrd_local_before(u->met_at, at->met_at))
            at = u;
    }
    *at = (unread_ring){ key, mrd_local_now(), why };
    return is_new;
}

/* Stores why a ring file was refused, as a text for logs and terminals. File names are escaped,
 * because another user may have chosen them. */
void
mrd_drain_refused(mrd_drain *drain, unsigned dir, const char *file_name, const char *reason)
{
    char link[64], path[PATH_MAX];
    size_t len = strlen(file_name);
    mrd_buf text = { 0 };
    ssize_t n;

    if (!mrd_drain_unread(drain, dir, file_name, MRD_UNREAD_REFUSED))
        return;
    drain->counts.files_refused++;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", mrd_discover_dir_fd(drain->discover, dir));
    n = readlink(link, path, sizeof(path));
    mrd_plain_text(&text, (mrd_str){ path, n < 0 ? 0 : (size_t) n });
    mrd_buf_text(&text, "/");
    mrd_plain_text(&text, mrd_str_of(file_name));
    mrd_buf_text(&text, ": ");
    if (strncmp(reason, file_name, len) == 0 && strncmp(reason + len, ": ", 2) == 0)
        reason += len + 2;
    mrd_plain_text(&text, mrd_str_of(reason));
    snprintf(drain->last_refused, sizeof(drain->last_refused), "%.767s", mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
}

void
mrd_drain_is_read(mrd_drain *drain, unsigned dir, const char *file_name)
{
    uint64_t key = key_of(dir, file_name);

    for (size_t i = 0; i < NEAR; i++)
        if (drain->unread[(key + i) % MRD_DRAIN_UNREAD].key == key)
            drain->unread[(key + i) % MRD_DRAIN_UNREAD] = (unread_ring){ 0 };
}

void
mrd_drain_get_unread(const mrd_drain *drain, unsigned ret_n[MRD_UNREAD_WHYS])
{
    mrd_local_ns since = mrd_local_sub(mrd_local_now(), MRD_WAIT_UNREAD_SHOWN);

    memset(ret_n, 0, MRD_UNREAD_WHYS * sizeof(*ret_n));
    for (size_t i = 0; i < MRD_DRAIN_UNREAD; i++)
        if (drain->unread[i].key != 0 && !mrd_local_before(drain->unread[i].met_at, since))
            ret_n[drain->unread[i].why]++;
}

bool
mrd_drain_leaves_out(const mrd_drain *drain)
{
    return drain->rings_beyond > 0 &&
           mrd_local_diff(mrd_local_now(), drain->beyond_at) < MRD_WAIT_UNREAD_SHOWN;
}

bool
mrd_drain_has_refused(const mrd_drain *drain)
{
    return drain->counts.files_refused > 0;
}
