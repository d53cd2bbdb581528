/* Tests the limits of one session. The last item that fits is accepted. The next one is refused and
 * changes nothing. */
#include "aggregator/core/decide/artifacts.h"
#include "base/vec.h"
#include "tests/aggregator/core_make.h"

/* Returns the first effect with this ticket and removes all effects. */
static mrd_effect
answer_to(mrd_core *c, uint64_t ticket)
{
    mrd_effect found = { 0 }, *e;

    while ((e = mrd_core_effect(c)) != NULL) {
        if (e->kind == MRD_DO_ANSWER && e->ticket == ticket)
            found = *e;
    }
    return found;
}

TEST(triggers_of_a_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);
    mrd_effect e;
    uint64_t last;

    s->params.mode = MRD_MODE_RECORDER;
    s->params.recorder_ns = 30 * MRD_SEC;
    for (uint64_t i = 1; i < MRD_TRIGGERS_MAX; i++)
        CHECK_ERR("add", mrd_session_add_trigger(s, &(mrd_trigger){ .id = i }, NULL), MRD_OK);
    mrd_core_trigger(c, core_at(20 * MRD_SEC), 5, 7, 10 * MRD_SEC, "the last that fits");
    (void) answer_to(c, 5);
    CHECK_INT(s->n_triggers, MRD_TRIGGERS_MAX);
    last = s->triggers[MRD_TRIGGERS_MAX - 1].id;
    mrd_session_acknowledge_ids(s, p, &last, 1);
    CHECK(mrd_part_knows(p, MRD_TRIGGERS_MAX - 1) && !mrd_part_knows(p, MRD_TRIGGERS_MAX - 2));
    mrd_core_trigger(c, core_at(21 * MRD_SEC), 6, 7, 10 * MRD_SEC, "one too many");
    e = answer_to(c, 6);
    CHECK_ERR("one too many", e.err, MRD_LIMIT);
    CHECK(strstr(e.text, "was triggered 1024 times: start a new one") != NULL);
    CHECK_INT(s->n_triggers, MRD_TRIGGERS_MAX);
    CHECK_INT(s->triggers[MRD_TRIGGERS_MAX - 1].id, last);
    mrd_core_free(c);
}

static mrd_err
announce(mrd_core *c, unsigned number, mrd_why *why)
{
    static const mrd_node node = { .instance_id = "a" };
    Mrd__ArtifactAnnounce o = MRD__ARTIFACT_ANNOUNCE__INIT;
    char sha[65], name[] = "x.ntff", kind[] = "NTFF";

    snprintf(sha, sizeof(sha), "%064x", number);
    o.sha256 = sha;
    o.name = name;
    o.kind = kind;
    o.size = 10;
    return mrd_core_artifact_announced(c, core_at(20 * MRD_SEC), &node, 7, &o, why);
}

TEST(artifacts_of_a_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);
    mrd_why why = { 0 };

    CHECK_ERR("the first", announce(c, 1, &why), MRD_OK);
    while (s->n_artifacts <
           /* files are added directly, because each announcement is compared with all others */
           MRD_ARTIFACTS_MAX - 1) {
        REQUIRE(MRD_VEC_NEXT(s->artifacts, s->n_artifacts));
        s->artifacts[s->n_artifacts] = (mrd_listed_artifact){ .size = 1 };
        snprintf(s->artifacts[s->n_artifacts].sha256, 65, "f%063zx", s->n_artifacts);
        s->n_artifacts++;
    }
    CHECK_ERR("the last that fits", announce(c, 2, &why), MRD_OK);
    CHECK_INT(s->n_artifacts, MRD_ARTIFACTS_MAX);
    CHECK_ERR("one too many", announce(c, 3, &why), MRD_LIMIT);
    CHECK(strstr(why.text, "the session lists as many artifacts as it may (65536)") != NULL);
    CHECK_INT(p->refused_files, 1);
    CHECK(strstr(p->refused_file, "'x.ntff': the session lists as many") != NULL);
    CHECK_ERR("once more", announce(c, 3, &why), MRD_LIMIT);
    CHECK_INT(p->refused_files, 1);
    CHECK_ERR("one that is listed", announce(c, 1, &why), MRD_OK);
    CHECK_INT(s->n_artifacts, MRD_ARTIFACTS_MAX);
    CHECK_INT(s->artifact_bytes, 20);
    mrd_core_free(c);
}

/* The name of an artifact becomes a path in the store. The deepest name that an agent sends is
 * valid. The message about an invalid name contains the fault. */
TEST(names_of_artifacts)
{
    static const struct {
        const char *name, *fault;
    } rows[] = {
        { "a.ntff", NULL },
        { "i-1_pid_7/a b/\xff.ntff", NULL },
        { "1/2/3/4/5/6/7/8/9/10/11/12/x.ntff", NULL },
        { "", "is empty" },
        { "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/x.ntff", "has more than 16 parts" },
        { "/etc/x.ntff", "has an empty part" },
        { "a//x.ntff", "has an empty part" },
        { "a/", "ends with a slash" },
        { "a/../x.ntff", "has a part that begins with a dot" },
        { ".x.ntff", "has a part that begins with a dot" },
        { "a\nb.ntff", "has a control character" },
        { "\x1b[31m.ntff", "has a control character" },
        { "a\x7f", "has a control character" },
    };
    char *most;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *fault = mrd_artifact_name_fault(rows[i].name);

        CHECK_ROW(rows[i].name, (fault == NULL) == (rows[i].fault == NULL));
        if (fault != NULL && rows[i].fault != NULL)
            CHECK_TEXT(fault, rows[i].fault);
    }
    REQUIRE(asprintf(&most, "%0200d/%054d", 1, 1) == 255);
    CHECK(mrd_artifact_name_fault(most) == NULL);
    free(most);
    REQUIRE(asprintf(&most, "%0200d/%055d", 1, 1) == 256);
    CHECK_TEXT(mrd_artifact_name_fault(most), "has 256 bytes or more");
    free(most);
    REQUIRE(asprintf(&most, "%0201d", 1) == 201);
    CHECK_TEXT(mrd_artifact_name_fault(most), "has a part of more than 200 bytes");
    free(most);
}

/* Sends frame `seq` as ticket `seq`. Returns true if it is written to disk. */
static bool
send_frame(mrd_core *c, mrd_node *n, uint64_t seq, uint8_t type, int64_t at)
{
    mrd_frame f = { .type = type,
                    .agent = mrd_agent_key(mrd_str_of("a")),
                    .session = 7,
                    .seq = seq,
                    .events = 10 };
    bool appended = false;
    mrd_effect *e;

    mrd_core_numbered(c, core_at(at), seq, n, &f, 100, (mrd_local_ns){ at });
    while ((e = mrd_core_effect(c)) != NULL)
        appended = appended || e->kind == MRD_DO_APPEND;
    return appended;
}

static unsigned
logged(mrd_core *c, const char *code)
{
    mrd_effect *e;
    unsigned n = 0;

    while ((e = mrd_core_effect(c)) != NULL)
        n += e->kind == MRD_DO_LOG && strcmp(e->id, code) == 0;
    return n;
}

/* The free bytes of a file system do not show a quota. For a minute each measurement shows free
 * space and each frame fails. This counts as one period without space. */
TEST(a_quota_is_full_until_a_frame_was_stored)
{
    mrd_core *c = core_make((mrd_core_limits){ .disk_reserve = 1 << 20 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_frame first = { .type = MRD_FRAME_BATCH, .agent = mrd_agent_key(mrd_str_of("a")) };
    mrd_why quota = { .err = MRD_FULL, .text = "Disk quota exceeded" };
    uint64_t seq = 1;
    mrd_node *n;

    core_hello(c, 1, "a", 1);
    CHECK(mrd_core_sender(c, core_at(2), 10, 1, &first, &n));
    core_drain(c);
    CHECK(send_frame(c, n, seq, MRD_FRAME_BATCH, MRD_SEC));
    mrd_core_stored(c, core_at(MRD_SEC), seq++, &quota);
    CHECK_INT(logged(c, "AGG-DISK-FULL"), 1);
    for (int64_t at = 2 * MRD_SEC; at < 62 * MRD_SEC; at += MRD_SEC) {
        mrd_core_disk(c, core_at(at), INT64_MAX);
        CHECK(mrd_core_store_message(c) != NULL);
        CHECK(send_frame(c, n, seq, MRD_FRAME_BATCH, at));
        CHECK(!send_frame(c, n, seq + 1, MRD_FRAME_BATCH, at)); /* one tries, not all */
        mrd_core_stored(c, core_at(at), seq, &quota);
        CHECK_INT(logged(c, "AGG-DISK-FULL") + logged(c, "AGG-DISK-ROOM"), 0);
        seq += 2;
    }
    CHECK_INT(s->full.ns, MRD_SEC);
    CHECK_INT(s->room.ns, 0);
    mrd_core_disk(c, core_at(62 * MRD_SEC), INT64_MAX);
    CHECK(send_frame(c, n, seq, MRD_FRAME_CLOCK_DATA,
                     /* a small frame of clock data fits in its part of the reserve, so it does not
                      * prove that the disk has space */
                     62 * MRD_SEC));
    mrd_core_stored(c, core_at(62 * MRD_SEC), seq++, NULL);
    core_drain(c);
    CHECK(mrd_core_store_message(c) != NULL);
    CHECK(send_frame(c, n, seq, MRD_FRAME_BATCH, 62 * MRD_SEC));
    mrd_core_stored(c, core_at(63 * MRD_SEC), seq++, NULL);
    CHECK_INT(logged(c, "AGG-DISK-ROOM"), 1);
    CHECK(mrd_core_store_message(c) == NULL);
    CHECK_INT(s->room.ns, 63 * MRD_SEC);
    CHECK(send_frame(c, n, seq, MRD_FRAME_BATCH, 64 * MRD_SEC));
    mrd_core_stored(c, core_at(64 * MRD_SEC), seq++, &quota);
    core_drain(c);
    for (int64_t at = 65 * MRD_SEC; at < 70 * MRD_SEC; at += MRD_SEC) { /* no frame is sent */
        mrd_core_disk(c, core_at(at), INT64_MAX);
        CHECK(mrd_core_store_message(c) != NULL);
    }
    mrd_core_disk(c, core_at(70 * MRD_SEC), INT64_MAX);
    CHECK(mrd_core_store_message(c) == NULL);
    mrd_core_free(c);
}

TEST_MAIN()
