/* Tests the option with the operator's export targets: which lists are valid, the parsed targets,
 * and the messages about unknown names. */
#include "aggregator/core/common/targets.h"
#include "base/obj.h"
#include "tests/check.h"

#define NAME_63 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg"

TEST(which_lists_are_taken)
{
    static const struct {
        const char *list, *fault; /* NULL: none */
    } rows[] = {
        { NULL, NULL },
        { "", NULL },
        { "a=/x", NULL },
        { "a=/x,", NULL },
        { "a=/x,b=s3://bucket/prefix", NULL },
        { "a=/x=y", NULL },
        { "aAzZ09-_=/x", NULL },
        { "z=/x,A=/x,Z=/x,0=/x,9=/x,-=/x,_=/x", NULL },
        { NAME_63 "=/x", NULL },
        { NAME_63 "h=/x", "each is NAME=DIR" },
        { "/x", "each is NAME=DIR" },
        { "=/x", "each is NAME=DIR" },
        { "a=", "each is NAME=DIR" },
        { "a=/x,b", "each is NAME=DIR" },
        { "a=/x,,b=/y", "each is NAME=DIR" },
        { "a=/x,b=,c=/y", "each is NAME=DIR" },
        { "a b=/x", "each is NAME=DIR" },
        { "/=/x", "each is NAME=DIR" }, /* before 0 */
        { ":=/x", "each is NAME=DIR" }, /* after 9 */
        { "@=/x", "each is NAME=DIR" }, /* before A */
        { "[=/x", "each is NAME=DIR" }, /* after Z */
        { "`=/x", "each is NAME=DIR" }, /* before a */
        { "{=/x", "each is NAME=DIR" }, /* after z */
        { ".a=/x", "each is NAME=DIR" },
        { "a=/x,a=/y", "names a twice" },
        { "a=/x,b=/y,a=/z", "names a twice" },
        { "b=/y,a=/x,a=/z", "names a twice" },
        { "ab=/x,ab=/y", "names ab twice" },
        { "a=/x,aa=/y,aaa=/z", NULL },
        { "aaa=/x,aa=/y,a=/z", NULL },
        { "ab=/x,ac=/y,bb=/z", NULL },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *list = rows[i].list == NULL ? "none" : rows[i].list;
        mrd_why why = { 0 };

        CHECK_ERR(list, mrd_targets_check(rows[i].list, &why),
                  rows[i].fault == NULL ? MRD_OK : MRD_INVALID);
        CHECK_ROW(list, rows[i].fault == NULL || strstr(why.text, rows[i].fault) != NULL);
    }
}

/* Appends "name target" of each target on a line. */
static void
say(const char *list, mrd_buf *to)
{
    const char *at = NULL;
    mrd_str name, target;

    while (mrd_targets_next(list, &at, &name, &target))
        mrd_buf_fmt(to, "[" MRD_STR_FMT " " MRD_STR_FMT "]", MRD_STR_ARG(name),
                    MRD_STR_ARG(target));
}

TEST(each_has_a_name_and_a_place)
{
    static const struct {
        const char *list, *want;
    } rows[] = {
        { NULL, "" },
        { "", "" },
        { "a=/x", "[a /x]" },
        { "a=/x,", "[a /x]" },
        { "team=/mnt/p,cold=s3://b/x=1,z=/", "[team /mnt/p][cold s3://b/x=1][z /]" },
        /* the function does not check for a target without a name */
        { "/mnt/p,a=/x", "[ /mnt/p][a /x]" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf got = { 0 };

        say(rows[i].list, &got);
        CHECK_TEXT(mrd_buf_cstr(&got), rows[i].want);
        mrd_buf_fini(&got);
    }
}

TEST(a_name_that_is_none_is_told_which_there_are)
{
    static const struct {
        const char *list, *name, *says; /* NULL: it is one */
    } rows[] = {
        { "team=/x,cold=s3://b", "team", NULL },
        { "team=/x,cold=s3://b", "cold", NULL },
        { "team=/x,cold=s3://b", "tea", "(--export-targets): team, cold" },
        { "team=/x,cold=s3://b", "teams", "(--export-targets): team, cold" },
        { "team=/x,cold=s3://b", "hold", "'hold' is none of this aggregator's targets" },
        { "team=/x", "/x", "(--export-targets): team" },
        { "", "team", "this aggregator has no targets to choose from" },
        { NULL, "team", "this aggregator has no targets to choose from" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].name, mrd_targets_has(rows[i].list, rows[i].name, &why),
                  rows[i].says == NULL ? MRD_OK : MRD_INVALID);
        CHECK_ROW(rows[i].name, rows[i].says == NULL || strstr(why.text, rows[i].says) != NULL);
        CHECK_ROW(rows[i].name, rows[i].says == NULL || why.err == MRD_INVALID);
    }
}

TEST_MAIN()
