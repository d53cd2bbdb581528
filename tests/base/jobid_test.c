/* Tests job identifiers. They come from environment variables and the scheduler's hook, so they may
 * contain anything. */
#include "base/jobid.h"

#include "tests/check.h"

static mrd_jobid
of(const char *text)
{
    mrd_jobid id = { "" };

    mrd_jobid_parse(&id, mrd_str_of(text));
    return id;
}

TEST(reads_environments)
{
    static const char slurm[] =
        "SLURM_JOBID=9\0SLURM_JOB_ID=4711\0PATH=/bin\0SLURM_JOB_USER=alice\0"
        "SLURM_ARRAY_JOB_ID=4708\0SLURM_ARRAY_TASK_ID=3\0SLURM_STEP_ID=0\0"
        "SLURM_JOB_NAME=a=b\nc\0SLURM_RESTART_COUNT=";
    static const char pod[] = "MERIDIAN_LABELS=app=train,team=x=y,,bad key=1,=2\0POD_NAME=p-0\0"
                              "POD_NAMESPACE=ml\0JOB_COMPLETION_INDEX=0";
    mrd_jobid id = { "" };

    mrd_jobid_environ(&id, (mrd_str){ slurm, sizeof(slurm) });
    CHECK_TEXT(id.text,
               "job=4711\njob_name=a=b c\nuser=alice\narray_job=4708\narray_task=3\nstep=0\n");
    id = (mrd_jobid){ "" };
    mrd_jobid_environ(&id, (mrd_str){ pod, sizeof(pod) });
    CHECK_TEXT(id.text, "array_task=0\nnamespace=ml\npod=p-0\nlabel.app=train\nlabel.team=x=y\n");
}

TEST(the_first_value_stays)
{
    mrd_jobid id = of("user=alice\nuser=bob\nx\n=y\nuid=1\nempty=\nb\001d=1\nlast=2");

    CHECK_TEXT(id.text, "user=alice\nuid=1\nlast=2\n");
    CHECK(!mrd_jobid_set(&id, MRD_STR("uid"), MRD_STR("2")));
}

TEST(keeps_its_bounds)
{
    mrd_jobid id = { "" };
    char value[MRD_JOBID_MAX], key[16];
    size_t taken = 0;

    memset(value, 'v', sizeof(value));
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        taken += mrd_jobid_set(&id, mrd_str_of(key), (mrd_str){ value, sizeof(value) });
    }
    CHECK(strlen(id.text) < sizeof(id.text));
    CHECK_INT(taken, 7); /* whole ones */
    CHECK_INT(mrd_jobid_get(&id, "k0").len, MRD_JOBID_VALUE - 1);
    CHECK_INT(mrd_jobid_get(&id, "k7").len, 0);
}

TEST(filters)
{
    mrd_jobid id = of("job=4711\narray_job=4708\narray_task=3\nuser=al\nlabel.app=train");
    static const struct {
        const char *key, *value;
        bool fits;
    } rows[] = {
        { "job", "4711", true },   { "job", "471", false },        { "job", "4708_3", true },
        { "job", "4708_", false }, { "job", "4708_33", false },    { "job", "4708", false },
        { "user", "al", true },    { "user", "a", false },         { "user", "", false },
        { "pod", "", true },       { "label.app", "train", true }, { "restart", "0", true },
        { "restart", "1", false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].value, mrd_jobid_matches(&id, mrd_str_of(rows[i].key),
                                                   mrd_str_of(rows[i].value)) == rows[i].fits);
}

/* Each row is a different job. No value can imitate the parts of another key. */
TEST(jobs_that_differ_in_one_part_have_different_keys)
{
    static const struct {
        const char *words, *text;
        int64_t uid;
    } rows[] = {
        { "job=42", "//42/0", 1 },
        { "job=42", "//42/0", 2 },
        { "job=42\nrestart=1", "//42/1", 1 },
        { "job=42\ncluster=c", "c//42/0", 1 },
        { "job=42\nnamespace=c", "/c/42/0", 1 },
        { "job=42\nnamespace=c\ncluster=c", "c/c/42/0", 1 },
        { "job=c/42", "//c%2F42/0", 1 },
        { "job=c%2F42", "//c%252F42/0", 1 },
        { "job=42\ncluster=/c", "%2Fc//42/0", 1 },
        { "user=u\ncluster=c", "", 1 },
    };
    mrd_jobid same = of("uid=7\nrestart=0\nuser=u\njob=42\nstep=3");
    mrd_job_key a, b;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_jobid id = of(rows[i].words);

        mrd_job_key_of(&id, rows[i].uid, &a);
        CHECK_TEXT(a.text, rows[i].text);
        for (size_t k = 0; k < MRD_COUNT(rows); k++) {
            mrd_jobid other = of(rows[k].words);

            mrd_job_key_of(&other, rows[k].uid, &b);
            CHECK_ROW(rows[k].words, mrd_job_key_equal(&a, &b) == (i == k && a.text[0] != '\0'));
        }
    }
    mrd_job_key_of(&same, 1, &b);
    CHECK_TEXT(b.text, rows[0].text); /* other labels do not change the key */
}

TEST(a_key_has_room_for_the_longest_values)
{
    char value[MRD_JOBID_VALUE];
    mrd_jobid id = { "" };
    mrd_job_key key;

    memset(value, '/', sizeof(value));
    for (const char *const *k =
             (const char *const[]){ "cluster", "namespace", "job", "restart", NULL };
         *k != NULL; k++)
        CHECK(mrd_jobid_set(&id, mrd_str_of(*k), (mrd_str){ value, sizeof(value) }));
    mrd_job_key_of(&id, 0, &key);
    CHECK_INT(strlen(key.text), 4 * 3 * (MRD_JOBID_VALUE - 1) + 3);
}

TEST(what_is_known_better_corrects_what_is_claimed)
{
    static const char *const keys[] = { "job", "cluster", "user", NULL };
    mrd_jobid id = of("job=42\ncluster=lie\nuser=bob\nstep=1\npartition=x"), nothing = { "" };
    mrd_jobid told = of("job=42\nuser=alice\npartition=main");

    mrd_jobid_correct(&id, &told, keys);
    CHECK_TEXT(id.text, "job=42\nuser=alice\npartition=main\nstep=1\n");
    mrd_jobid_correct(&id, &nothing, keys);
    CHECK_TEXT(id.text, "partition=main\nstep=1\n");
}

TEST(only_equal_pairs_are_common)
{
    mrd_jobid id = of("job=42\nuser=alice\nuid=5\nstep=0"),
              other = of("uid=5\nuser=bob\njob=42\nnode=n");

    mrd_jobid_keep_common(&id, &other);
    CHECK_TEXT(id.text, "job=42\nuid=5\n");
}

TEST(says_it)
{
    mrd_jobid id = of("job=4711\nuser=alice");
    char text[64], cut[8];

    mrd_jobid_say(&id, text, sizeof(text));
    CHECK_TEXT(text, "job 4711, user alice");
    mrd_jobid_say(&id, cut, sizeof(cut));
    CHECK_TEXT(cut, "job 471");
}

TEST_MAIN()
