/* Fuzzes the check of tokens. The input is a token file and, after a NUL, the token and the
 * instance of a request. Only a token of the file has a role, and only an agent's token may
 * publish. */
#include "aggregator/access/auth.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mrd_str
chunk(const uint8_t **data, size_t *size)
{
    const uint8_t *end = *size == 0 ? NULL : memchr(*data, 0, *size);
    mrd_str s = { (const char *) *data, end == NULL ? *size : (size_t) (end - *data) };

    *data += s.len + (end != NULL);
    *size -= s.len + (end != NULL);
    return s;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_str file = chunk(&data, &size), token = chunk(&data, &size);
    mrd_str instance = { (const char *) data, size };
    mrd_auth *auth = NULL;
    mrd_why why = { 0 };
    mrd_role role;
    bool agent;

    if (mrd_auth_parse(file, "tokens", &auth, &why) != MRD_OK) {
        if (why.err == MRD_OK || why.text[0] == '\0')
            abort();
        return 0;
    }
    role = mrd_auth_role(auth, token);
    agent = mrd_auth_agent(auth, token, instance);
    if (role != MRD_ROLE_NONE && token.len < 16)
        abort();
    if (agent && role == MRD_ROLE_NONE)
        abort();
    mrd_auth_free(auth);
    return 0;
}
