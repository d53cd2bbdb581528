#include "aggregator/access/rights.h"

#include "base/obj.h"
#include "base/sys/secret.h"

#define BIT(role) (1u << (role))
#define OWNER     BIT(MRD_ROLE_OWNER)
#define READER    BIT(MRD_ROLE_READ)
#define OPERATOR  BIT(MRD_ROLE_OPERATOR)
#define ADMIN     BIT(MRD_ROLE_ADMIN)
#define PEOPLE    (OWNER | READER | OPERATOR | ADMIN)
#define EVERYBODY (PEOPLE | BIT(MRD_ROLE_NONE) | BIT(MRD_ROLE_AGENT))

/* One row for each action. `all` is the set of roles that may do the action with every session and
 * with the cluster. `own` is the set of roles that may do it with their own sessions only. */
static const struct {
    const char *text;
    unsigned all, own;
} rules[MRD_ACTIONS] = {
    [MRD_ACTION_NONE] = { "none", 0, 0 },
    [MRD_ACTION_OPEN] = { "open", EVERYBODY, 0 },
    [MRD_ACTION_SELF] = { "self", PEOPLE, 0 },
    [MRD_ACTION_LIST] = { "list", READER | OPERATOR | ADMIN, OWNER },
    [MRD_ACTION_READ] = { "read", READER | OPERATOR | ADMIN, OWNER },
    [MRD_ACTION_DELETE] = { "delete", ADMIN, OWNER },
    [MRD_ACTION_CONTROL] = { "control", OPERATOR | ADMIN, 0 },
    [MRD_ACTION_START] = { "start", OPERATOR | ADMIN, 0 },
    [MRD_ACTION_CLUSTER] = { "cluster", READER | OPERATOR | ADMIN, 0 },
    [MRD_ACTION_FORGET] = { "forget", ADMIN, 0 },
    [MRD_ACTION_INVITE] = { "invite", ADMIN, 0 },
    [MRD_ACTION_ENROL] = { "enrol", BIT(MRD_ROLE_AGENT), 0 },
};

/* Returns true if the list contains the key. Always compares with all entries, so that the duration
 * reveals nothing about them. */
static bool
has_key(const mrd_strlist *keys, const char *key)
{
    bool found = false;

    for (size_t i = 0; keys != NULL && i < keys->n; i++)
        found |= strlen(keys->v[i]) == MRD_SHA256_HEX - 1 &&
                 mrd_secret_equal(keys->v[i], key, MRD_SHA256_HEX - 1);
    return found;
}

/* Returns true if the value of `key` in each recorded job of the session equals `value`. A job
 * without this key may belong to another owner, so the result is then false. */
static bool
all_jobs_say(const mrd_ownership *ownership, const char *key, const char *value)
{
    if (ownership->jobs == NULL || ownership->jobs->n == 0 || ownership->jobs_left_out > 0)
        return false;
    for (size_t i = 0; i < ownership->jobs->n; i++) {
        mrd_jobid id = { "" };

        mrd_jobid_parse(&id, mrd_str_of(ownership->jobs->v[i]));
        if (!mrd_str_is(mrd_jobid_get(&id, key), value))
            return false;
    }
    return true;
}

bool
mrd_caller_owns(const mrd_caller *who, const mrd_ownership *session)
{
    bool key = who->key[0] != '\0', user = who->user[0] != '\0', space = who->space[0] != '\0';

    if (!session->of_job || !(key || user || space || who->uid >= 0))
        return false;
    return (!key || has_key(session->keys, who->key)) &&
           (!user || all_jobs_say(session, "user", who->user)) &&
           (!space || all_jobs_say(session, "namespace", who->space)) &&
           (who->uid < 0 || who->uid == session->uid);
}

bool
mrd_may(const mrd_caller *who, const mrd_ownership *session, mrd_action action)
{
    unsigned role = who->role <= MRD_ROLE_AGENT ? BIT(who->role) : 0;

    if ((unsigned) action >= MRD_ACTIONS)
        return false;
    if ((rules[action].all & role) != 0)
        return true;
    return (rules[action].own & role) != 0 && (session == NULL || mrd_caller_owns(who, session));
}

const char *
mrd_action_text(mrd_action action)
{
    return (unsigned) action < MRD_ACTIONS ? rules[action].text : rules[MRD_ACTION_NONE].text;
}
