/* Tests the thread that merges sessions: what it does with the files of an interrupted merge, and
 * that it syncs each file that it writes. */
#include "aggregator/merge/merger.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sys/out.h"
#include "tests/check.h"

static sem_t ended;

static void
progress(void *self, uint64_t session, uint64_t events)
{
    (void) self, (void) session, (void) events;
}

static void
damaged(void *self, uint64_t session, const merge_input *in, bool whole)
{
    (void) self, (void) session, (void) in, (void) whole;
}

static void
done(void *self, uint64_t session, mrd_merge_state state, uint64_t events,
     mrd_clock_verdict *verdict, const mrd_why *why)
{
    (void) session, (void) events, (void) verdict, (void) why;
    *(mrd_merge_state *) self = state;
    sem_post(&ended);
}

/* The partial files of a merge that was killed are removed by the next merge, which writes its
 * own. */
TEST(half_files_of_a_killed_merge_go)
{
    static const char *const left[] = { "system_profile.pftrace.a7737167.part",
                                        "SHA256SUMS.00000001.part" };
    merge_input *in = calloc(1, sizeof(*in));
    mrd_merge_state state = MRD_MERGE_NONE;
    mrd_merger_options o = { progress, damaged, done, &state, 0, NULL };
    struct timespec deadline;
    mrd_merger *m = NULL;
    char path[400];

    REQUIRE(sem_init(&ended, 0, 0) == 0 && in != NULL);
    in->dir = strdup(test_tmp());
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/profile/%s", test_tmp(), left[i]);
        CHECK_ERR(path,
                  mrd_write_file(path, ((mrd_bytes){ (const uint8_t *) "half", 4 }), 0600, NULL),
                  MRD_OK);
    }
    CHECK_ERR("open", mrd_merger_open(&o, &m, NULL), MRD_OK);
    CHECK(mrd_merger_start(m, 1, in));
    REQUIRE(clock_gettime(CLOCK_REALTIME, &deadline) == 0);
    deadline.tv_sec += 60;
    CHECK(sem_timedwait(&ended, &deadline) == 0);
    mrd_merger_close(m);
    CHECK_INT(state, MRD_MERGE_DONE);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/profile/%s", test_tmp(), left[i]);
        CHECK_ROW(left[i], access(path, F_OK) != 0);
    }
    snprintf(path, sizeof(path), "%s/profile/SHA256SUMS", test_tmp());
    CHECK(access(path, F_OK) == 0);
}

static _Atomic size_t synced; /* number of files that were synced, without directories */

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int
__wrap_fsync(int fd)
{
    struct stat st;

    synced += fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    return __real_fsync(fd);
}

/* All files of a profile are synced, not only the manifests of table folders. So after a power cut
 * a durable profile is complete. */
TEST(each_file_of_a_durable_profile_is_synced)
{
    merge_input *in = calloc(1, sizeof(*in));
    mrd_merge_state state = MRD_MERGE_NONE;
    mrd_merger_options o = { progress, damaged, done, &state, 0, "csv" };
    struct timespec deadline;
    mrd_merger *m = NULL;
    char command[400];
    unsigned files = 0;
    FILE *count;

    REQUIRE(sem_init(&ended, 0, 0) == 0 && in != NULL);
    in->dir = strdup(test_tmp());
    in->durable = true;
    CHECK_ERR("open", mrd_merger_open(&o, &m, NULL), MRD_OK);
    CHECK(mrd_merger_start(m, 1, in));
    REQUIRE(clock_gettime(CLOCK_REALTIME, &deadline) == 0);
    deadline.tv_sec += 60;
    CHECK(sem_timedwait(&ended, &deadline) == 0);
    mrd_merger_close(m);
    CHECK_INT(state, MRD_MERGE_DONE);
    snprintf(command, sizeof(command), "find '%s/profile' -type f | wc -l", test_tmp());
    REQUIRE((count = popen(command, "r")) != NULL);
    CHECK(fscanf(count, "%u", &files) == 1);
    pclose(count);
    CHECK(files > 10);
    CHECK_INT(synced, files);
}

TEST_MAIN()
