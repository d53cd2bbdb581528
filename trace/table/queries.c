#include "trace/table/queries.h"

#include "trace/table/queries_int.h"

const mrd_query *
mrd_queries(size_t *ret_n)
{
    *ret_n = mrd_queries_n;
    return mrd_queries_text;
}

const mrd_query *
mrd_query_find(mrd_str name)
{
    for (size_t i = 0; i < mrd_queries_n; i++) {
        if (mrd_str_is(name, mrd_queries_text[i].name))
            return &mrd_queries_text[i];
    }
    return NULL;
}

mrd_str
mrd_query_title(const mrd_query *query)
{
    const char *p = strncmp(query->sql, "-- ", 3) == 0 ? query->sql + 3 : query->sql;

    return (mrd_str){ p, strcspn(p, "\n") };
}
