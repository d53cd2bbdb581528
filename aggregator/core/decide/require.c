#include "aggregator/core/decide/require.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"

#define NAMED_MAX 3 /* maximum number of nodes that a message names */

uint64_t
mrd_require_number(const char *require)
{
    uint64_t n = 1;

    (void) mrd_num_u64(mrd_str_of(require), &n); /* n stays 1 for "any", which is no number */
    return strcmp(require, "all") == 0 ? UINT64_MAX : n;
}

/* ---- Nodes that are absent ---- */

static void
mark_missing(mrd_core *core, mrd_session *session, const mrd_node *node)
{
    int64_t ago = node->seen_wall.ns == 0 ? 0 : core->now.wall.ns - node->seen_wall.ns;
    mrd_part *part = mrd_core_add_part(core, session, node);
    char text[MRD_DUR_TEXT];

    if (part == NULL)
        return;
    part->state = MRD_PART_MISSING;
    part->err = MRD_NOTFOUND;
    if (node->seen_wall.ns == 0)
        mrd_text_set(part->message, sizeof(part->message),
                     "no agent of this name has connected (meridian nodes)");
    else
        snprintf(part->message, sizeof(part->message),
                 "not connected when the session began, last seen %s before",
                 mrd_dur_text(ago < 0 ? 0 : ago / MRD_MS * MRD_MS, text));
}

static void
mark_silent(mrd_core *core, mrd_session *session, const mrd_node *node)
{
    mrd_part *part = mrd_core_add_part(core, session, node);

    if (part == NULL)
        return;
    part->state = MRD_PART_REFUSED;
    part->err = MRD_TIMEOUT;
    snprintf(part->message, sizeof(part->message), "did not answer within %lld ms",
             (long long) (core->limits.arm_timeout / MRD_MS));
}

/* Adds a part with state MISSING for each node that the selection names, but that never
 * connected. */
static void
mark_unknown(mrd_core *core, mrd_session *session)
{
    for (size_t i = 0; i < session->select.instances.n; i++) {
        const char *name = session->select.instances.v[i];
        mrd_node stand_in = { .key = 0 };

        if (!mrd_instance_id_valid(mrd_str_of(name)) ||
            mrd_nodes_by_id(&core->nodes, name) != NULL || mrd_session_part(session, name) != NULL)
            continue;
        mrd_text_set(stand_in.instance_id, sizeof(stand_in.instance_id), name);
        mark_missing(core, session, &stand_in);
    }
}

void
mrd_require_mark_absent(mrd_core *core, mrd_session *session)
{
    /* If the session selects jobs, ranks or processes, only a node itself knows whether it has any
     * of them. So no known node can be called absent. */
    for (size_t i = 0; i < core->nodes.n && !mrd_select_is_partial(&session->select); i++) {
        const mrd_node *node = core->nodes.v[i];

        if (!mrd_select_matches(&session->select, node->instance_id) ||
            mrd_session_part(session, node->instance_id) != NULL)
            continue;
        if (mrd_core_is_alive(core, node))
            mark_silent(core, session, node);
        else if (mrd_core_is_expected(core, node) || session->select.instances.n > 0)
            mark_missing(core, session, node);
    }
    mark_unknown(core, session);
}

/* ---- Are enough nodes ready? ---- */

/* Appends up to NAMED_MAX nodes in this state with their reasons, separated by "; ". If more nodes
 * are in this state, appends a text such as "5 more are missing". */
static void
add_names(const mrd_session *session, mrd_part_state state, const char *what, mrd_buf *to)
{
    unsigned n = 0;

    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];
        const char *since = strstr(part->message, "last seen");

        if (part->state == state && n++ < NAMED_MAX)
            mrd_buf_fmt(to, "%s%s%s: %.120s", to->len == 0 ? "" : "; ", part->instance_id, what,
                        since == NULL ? part->message : since);
    }
    if (n > NAMED_MAX)
        mrd_buf_fmt(to, "; %u more %s", n - NAMED_MAX,
                    state == MRD_PART_MISSING ? "are missing" : "are not ready");
}

/* Suggests what the user can do if some nodes are ready and others are not. */
static void
add_remedy(const mrd_session *session, unsigned armed, unsigned missing, mrd_buf *to)
{
    const char *away = NULL;

    if (armed == 0)
        return;
    for (size_t i = 0; i < session->n_parts && away == NULL; i++)
        away = session->parts[i]->state == MRD_PART_MISSING ? session->parts[i]->instance_id : NULL;
    mrd_buf_fmt(to, ". To start without the others: --require %u or any", armed);
    if (away != NULL)
        mrd_buf_fmt(to, "; to forget a node that will not come back: meridian nodes --forget %s%s",
                    away, missing > 1 ? ",..." : "");
}

static void
explain(mrd_session *session, unsigned armed, unsigned refused, unsigned missing, uint64_t want)
{
    mrd_buf names = { 0 }, remedy = { 0 };
    char number[32];

    snprintf(number, sizeof(number), "%llu are", (unsigned long long) want);
    add_names(session, MRD_PART_REFUSED, "", &names);
    add_names(session, MRD_PART_MISSING, " is missing", &names);
    add_remedy(session, armed, missing, &remedy);
    if (armed + refused == 0)
        snprintf(session->message, sizeof(session->message),
                 "no node took part: check that meridian-agent runs, is connected (meridian nodes) "
                 "and matches the selection; --require 0 waits for what does not run yet%s%.400s",
                 names.len == 0 ? "" : "; ", mrd_buf_cstr(&names));
    else
        snprintf(session->message, sizeof(session->message),
                 "%u of %u nodes are ready and %s required: %.380s%s", armed,
                 armed + refused + missing,
                 strcmp(session->params.require, "all") == 0 ? "all are"
                 : want == 1                                 ? "one is"
                                                             : number,
                 names.len == 0 ? "connect more agents" : mrd_buf_cstr(&names),
                 names.len == 0 ? "" : mrd_buf_cstr(&remedy));
    mrd_buf_fini(&names);
    mrd_buf_fini(&remedy);
}

bool
mrd_require_is_met(mrd_session *session)
{
    unsigned armed = mrd_session_count(session, MRD_PART_ARMED);
    unsigned refused = mrd_session_count(session, MRD_PART_REFUSED);
    unsigned missing = mrd_session_count(session, MRD_PART_MISSING);
    uint64_t want = mrd_require_number(session->params.require);

    if (want == UINT64_MAX)
        want = (uint64_t) armed + refused + missing;
    if (want == 0 || (armed > 0 && armed >= want))
        return true;
    explain(session, armed, refused, missing, want);
    return false;
}
