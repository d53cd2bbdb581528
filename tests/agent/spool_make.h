/* tests/agent/spool_make.h - makes a spool with generated frames, for the tests of
 * agent/spool/spool.h, which defines the terms. */
#ifndef MRD_TESTS_AGENT_SPOOL_MAKE_H
#define MRD_TESTS_AGENT_SPOOL_MAKE_H

#include <dirent.h>

#include "agent/spool/spool.h"
#include "tests/check.h"
static uint64_t lost_events, lost_frames; /* that were forced out */

static inline void
dropped(void *self, const mrd_spool_item *item)
{
    (void) self;
    lost_events += item->events;
    lost_frames++;
}

static inline mrd_spool *
open_spool(const char *dir, uint64_t max)
{
    mrd_spool *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR(
        "open",
        mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = max, .dropped = dropped }, &s,
                       &why),
        MRD_OK);
    if (s == NULL)
        fprintf(stderr, "%s\n", why.text);
    return s;
}

/* Adds a frame with `len` body bytes and `events` events to a session. */
static inline mrd_err
add(mrd_spool *s, uint64_t session, size_t len, uint64_t events)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .agent = 1,
                    .epoch = mrd_spool_epoch(s),
                    .session = session,
                    .seq = mrd_spool_next_seq(s, session) };
    uint8_t *frame = malloc(MRD_FRAME_HEADER + len);
    mrd_err err;

    memset(frame + MRD_FRAME_HEADER, (int) (f.seq & 255), len);
    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, len }, frame);
    err = mrd_spool_add(s, (mrd_bytes){ frame, MRD_FRAME_HEADER + len }, events, NULL);
    free(frame);
    return err != MRD_OK
               ? err
               : mrd_spool_commit(s, &(mrd_spool_position){ 9, f.seq * 32 + 32 }, 1, NULL);
}

static inline bool
whole(mrd_spool *s, const mrd_spool_item *item)
{
    mrd_buf data = { 0 };
    mrd_frame f;
    mrd_bytes body;
    bool ok = mrd_spool_read(s, item->id, &data, NULL) == MRD_OK &&
              mrd_frame_check((mrd_bytes){ data.p, data.len }, &f, &body, NULL) == MRD_OK &&
              f.seq == item->seq && f.session == item->session &&
              (body.len == 0 || body.p[body.len - 1] == (f.seq & 255));

    mrd_buf_fini(&data);
    return ok;
}

/* Selects the segments of a spool's directory, but not its counts file. */
static inline int
is_segment(const struct dirent *d)
{
    return strncmp(d->d_name, "spool-", 6) == 0;
}

static inline void
remove_segments(const char *dir)
{
    char path[1024];
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_segment, alphasort);

    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        CHECK(unlink(path) == 0);
        free(names[i]);
    }
    free(names);
}

#endif
