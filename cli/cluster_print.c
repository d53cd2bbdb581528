/* cli/cluster_print.c - answers of the aggregator on a terminal. */
#include "cli/cluster.h"

#include <stdlib.h>

void
mrd_cluster_say(FILE *to, const char *text)
{
    char *copy = mrd_str_dup(mrd_str_of(text));

    if (copy == NULL)
        return;
    mrd_text_plain(copy);
    fprintf(to, "%s\n", copy);
    free(copy);
}

void
mrd_cluster_print_json(const mrd_json *doc)
{
    mrd_buf text = { 0 };

    mrd_json_write(doc, true, &text);
    printf("%s\n", mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
}

void
mrd_cluster_print_list(const mrd_json *doc, const char *key, bool json,
                       const mrd_text_table_column *columns, size_t n_columns,
                       void (*row)(mrd_text_table *t, const mrd_json *member), const char *none)
{
    mrd_text_table t = { columns, n_columns, { 0 } };
    const mrd_json *list = mrd_json_get(doc, key);

    for (size_t i = 0; i < mrd_json_size(list); i++)
        row(&t, mrd_json_at(list, i));
    if (json)
        mrd_cluster_print_json(doc);
    else if (mrd_json_size(list) > 0)
        mrd_text_table_print(&t, stdout);
    else
        printf("%s\n", none);
    mrd_text_table_fini(&t);
}
