/* Tests which job a process belongs to (agent/record/job_files.h). The scheduler's hook writes a
 * file for each job, as root, and a process may state its job itself. The files of root take
 * precedence. */
#include "agent/record/job_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/obj.h"
#include "tests/check.h"

typedef struct {
    mrd_job_files *files;
    size_t begun, changed, ended;
    bool refuses; /* the callback refuses new jobs, like an agent at its limit of jobs */
} listener;

static void *
begin(void *self, const mrd_job_told *told, mrd_local_ns now)
{
    listener *l = self;

    (void) told;
    (void) now;
    if (l->refuses)
        return NULL;
    /* a call inside the callback must not change anything, because the directory is unchanged */
    mrd_job_files_step(l->files, mrd_local_now(), true);
    l->begun++;
    return l;
}

static void
change(void *self, void *job, const mrd_job_told *told, mrd_local_ns now)
{
    (void) job;
    (void) told;
    (void) now;
    ((listener *) self)->changed++;
}

static void
end(void *self, void *job, mrd_local_ns now)
{
    (void) job;
    (void) now;
    ((listener *) self)->ended++;
}

static void
put(const char *name, const char *text)
{
    char path[512], fresh[512];
    int fd;

    snprintf(path, sizeof(path), "%s/jobs/%s", test_tmp(), name);
    snprintf(fresh, sizeof(fresh), "%s/jobs/.new", test_tmp());
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text) && close(fd) == 0);
    REQUIRE(rename(fresh, path) == 0);
}

static void
open_files(listener *l)
{
    static char dir[512];
    mrd_job_files_options o = {
        .dir = dir, .begin = begin, .change = change, .end = end, .self = l
    };

    snprintf(dir, sizeof(dir), "%s/jobs", test_tmp());
    MRD_ASSERT(mkdir(dir, 0755) == 0);
    MRD_ASSERT(mrd_job_files_open(&o, &l->files, NULL) == MRD_OK);
}

/* Rows are processes on a node with these files: job 42 of user 5, a heterogeneous job with the
 * components 50 and 51, and job 60 of user 5. By mistake there is another job 60 of user 6. */
TEST(the_hook_corrects_what_processes_say)
{
    static const struct {
        const char *what, *says, *job, *text, *left;
        const char *uid;
    } rows[] = {
        { "as it is", "job=42\ncluster=c\nuser=alice\nstep=1\n", "42",
          "job=42\nuid=5\nuser=alice\ncluster=c\nstep=1\n", "42", "5" },
        { "another user's name, run and cluster", "job=42\ncluster=d\nuser=bob\nrestart=3\n", "42",
          "job=42\nuid=5\nuser=alice\ncluster=c\n", "42", "5" },
        { "another user", "job=42\ncluster=c\nuser=alice\nstep=1\n", "42", "step=1\nuid=6\n", "",
          "6" },
        { "another user with a job of its own", "job=7\nuser=bob\n", "42",
          "job=7\nuser=bob\nuid=6\n", "", "6" },
        { "of its own name too", "job=42\n", "night", "job=42\nuid=5\nuser=alice\ncluster=c\n",
          "night", "5" },
        { "the whole of a job", "job=50\n", "50", "job=50\nuid=5\n", "50", "5" },
        { "a component of it", "job=51\n", "51", "job=50\nuid=5\n", "51", "5" },
        { "another user's component", "job=51\n", "51", "uid=6\n", "", "6" },
        { "told of for both", "job=60\n", "60", "job=60\nuid=5\npartition=a\n", "60", "5" },
        { "told of for both, the other", "job=60\n", "60", "job=60\nuid=6\npartition=b\n", "60",
          "6" },
        { "a job without a file", "job=8\nuser=bob\n", "8", "job=8\nuser=bob\nuid=6\n", "8", "6" },
        { "no job", "pod=p\n", "", "pod=p\nuid=5\n", "", "5" },
    };
    listener l = { .files = NULL };

    open_files(&l);
    put("42", "job=42\nuid=5\nuser=alice\ncluster=c\nowner_key=ab\n");
    put("50", "job=50\nuid=5\ncomponent=50\n");
    put("51", "job=50\nuid=5\ncomponent=51\n");
    put("60", "job=60\nuid=5\npartition=a\n");
    put("60-of-another", "job=60\nuid=6\npartition=b\n");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ident id;

        mrd_ident_init(&id);
        mrd_jobid_parse(&id.jobid, mrd_str_of(rows[i].says));
        CHECK(mrd_jobid_set(&id.jobid, MRD_STR("uid"), mrd_str_of(rows[i].uid)));
        snprintf(id.job, sizeof(id.job), "%s", rows[i].job);
        mrd_job_files_correct(l.files, &id); /* the first call reads the directory */
        CHECK_ROW(rows[i].what, strcmp(id.jobid.text, rows[i].text) == 0);
        CHECK_ROW(rows[i].what, strcmp(id.job, rows[i].left) == 0);
    }
    CHECK_INT(l.begun, 5);
    mrd_job_files_close(l.files);
}

TEST(each_job_ends_once)
{
    listener l = { .files = NULL };
    int64_t now = mrd_local_now().ns;

    open_files(&l);
    put("1", "job=1\nuid=5\n");
    mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
    CHECK(l.begun == 1 && l.ended == 0 && mrd_job_files_has(l.files, &l));
    for (int again = 0; again < 2; again++) {
        put("1", "job=1\nuid=5\nended=1\n");
        mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
        CHECK(l.begun == 1 && l.ended == 1);
    }
    put("1", "job=1\nuid=5\ncluster=c\n"); /* it was requeued */
    mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
    put("1", "job=1\nuid=5\npartition=main\n");
    mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
    CHECK(l.begun == 2 && l.ended == 1);
    /* The key `restart` is added, so the file describes another run of the job. */
    put("1", "job=1\nuid=5\nrestart=1\n");
    mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
    CHECK(l.begun == 3 && l.ended == 2);
    l.refuses = true;
    put("2", "job=2\nuid=5\n");
    mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
    l.refuses = false;
    mrd_job_files_step(l.files, (mrd_local_ns){ now }, true);
    CHECK_INT(l.begun, 4); /* reported again */
    mrd_job_files_close(l.files);
}

TEST_MAIN()
