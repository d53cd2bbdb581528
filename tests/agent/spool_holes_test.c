/* Tests spools (agent/spool/spool.h) with several random kinds of damage, in the segments and in
 * the file "counts". No event may count twice. If neither of them has the answers to the frames
 * that are found, the spool treats these frames like those of an earlier boot. The aggregator then
 * states which of them it has. */
#include "tests/agent/spool_make.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/sys/out.h"
#include "tests/trace/events.h"

enum { SESSIONS = 5, FRAMES = 300, DAMAGES = 5, TRIALS = 200 };

static uint64_t
draw(uint64_t *seed, uint64_t below)
{
    return (test_rand(seed) >> 11) % below;
}

/* Cuts, changes or removes one file of the spool, or overwrites a part of it with zeros. */
static void
harm(const char *dir, uint64_t *seed)
{
    char path[1024], zeros[1000] = { 0 };
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_segment, alphasort), fd;
    uint64_t kind = draw(seed, 4), which = draw(seed, 2 * (uint64_t) n + 1), at;
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", dir,
             which < (uint64_t) n ? names[which]->d_name : "counts");
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (stat(path, &st) != 0 || st.st_size == 0)
        return;
    at = draw(seed, (uint64_t) st.st_size);
    if (kind == 0) {
        CHECK(unlink(path) == 0);
        return;
    }
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (kind == 1) {
        CHECK(ftruncate(fd, (off_t) at) == 0);
    } else if (kind == 2) {
        CHECK(pread(fd, zeros, 1, (off_t) at) == 1);
        zeros[0] ^= 1;
        CHECK(pwrite(fd, zeros, 1, (off_t) at) == 1);
    } else {
        CHECK(pwrite(fd, zeros, 1 + draw(seed, sizeof(zeros)), (off_t) at) > 0);
    }
    close(fd);
}

typedef struct {
    uint64_t committed[SESSIONS], stored[SESSIONS];
    bool is_stored[SESSIONS][FRAMES];
} truth;

static void
fill(mrd_spool *s, uint64_t *seed, truth *of)
{
    mrd_spool_item item;

    *of = (truth){ 0 };
    for (int i = 0; i < FRAMES; i++) {
        uint64_t session = draw(seed, SESSIONS), events = 1 + draw(seed, 50);

        CHECK_ERR("add", add(s, 7 + session, 1000, events), MRD_OK);
        of->committed[session] += events;
        for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1) {
            if (draw(seed, 12) != 0)
                continue;
            of->stored[item.session - 7] += item.events;
            of->is_stored[item.session - 7][item.seq] = true;
            CHECK(mrd_spool_done(s, item.id, true));
        }
    }
}

/* Answers all frames like the aggregator, which has the truth. */
static void
answer_all(mrd_spool *s, const truth *of)
{
    mrd_spool_item item;

    for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1)
        CHECK(item.earlier && of->is_stored[item.session - 7][item.seq]
                  ? mrd_spool_done_before(s, item.id)
                  : mrd_spool_done(s, item.id, true));
}

TEST(no_event_counts_twice)
{
    unsigned renewed = 0;

    for (uint64_t trial = 1; trial <= TRIALS; trial++) {
        uint64_t seed = trial, since;
        char dir[600], row[64];
        mrd_spool_options o = { .dir = dir, .max_bytes = 1u << 20, .boot_id = "a" };
        mrd_spool *s = NULL;
        bool is_renewed;
        truth of;

        snprintf(dir, sizeof(dir), "%s/spool", test_tmp());
        snprintf(row, sizeof(row), "trial %d", (int) trial);
        CHECK_ERR("open", mrd_spool_open(&o, &s, NULL), MRD_OK);
        since = mrd_spool_since(s);
        fill(s, &seed, &of);
        mrd_spool_close(s);
        for (int i = 0; i < DAMAGES; i++)
            harm(dir, &seed);
        CHECK_ERR("again", mrd_spool_open(&o, &s, NULL), MRD_OK);
        is_renewed = mrd_spool_since(s) != since;
        renewed += is_renewed;
        answer_all(s, &of);
        for (uint64_t k = 0; k < SESSIONS; k++) {
            const mrd_spool_base *base = mrd_spool_get_base(s, 7 + k);
            mrd_spool_tally t;
            uint64_t all;

            mrd_spool_get_tally(s, 7 + k, &t);
            all = t.delivered + t.refused + t.forced + t.damaged;
            /* the aggregator counts what was delivered since the base */
            if (is_renewed && base != NULL)
                all = of.stored[k] + t.delivered - base->tally.delivered;
            CHECK_ROW(row, all <= of.committed[k]);
            CHECK_ROW(row, !is_renewed || base != NULL || all == 0);
        }
        mrd_spool_close(s);
        mrd_remove_tree(dir);
    }
    CHECK(renewed > 0);
}

TEST_MAIN()
