#include "base/near.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns the edit distance of two words of at most 64 letters: how many letters must be inserted,
 * deleted, replaced or swapped with a neighbour. */
static size_t
distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    size_t d[3][66] = { { 0 } };

    if (la > 64 || lb > 64)
        return 99;
    for (size_t j = 0; j <= lb; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return d[la % 3][lb];
}

/* distance of a word and a name that are not similar */
#define NOT_NEAR 99u

/* Compares the parts of two names, separated by dashes. If b has all parts of a in the same order,
 * returns how many other parts b has. Otherwise, or if a part of a has fewer than 3 letters,
 * returns NOT_NEAR. */
static size_t
parts_more(const char *a, const char *b)
{
    size_t more = 0;

    while (*b != '\0') {
        size_t la = strcspn(a, "-"), lb = strcspn(b, "-");

        if (la >= 3 && la == lb && strncmp(a, b, la) == 0)
            a += la + (a[la] == '-');
        else
            more++;
        b += lb + (b[lb] == '-');
    }
    return *a == '\0' ? more : NOT_NEAR;
}

/* Returns true if the word abbreviates the name, like "fmt" for "format". The letters of the word
 * occur in the name in their order, and both have the same first and last letter. */
static bool
is_abbreviation(const char *word, const char *name)
{
    size_t len = strlen(word), at = 0;

    for (const char *c = name; *c != '\0' && at < len; c++)
        at += *c == word[at];
    return len >= 3 && at == len && word[0] == name[0] && word[len - 1] == name[strlen(name) - 1];
}

/* Returns the distance between a word and a name. It is the smallest of these:
 * - The edit distance, if it is at most a third of the word's length, rounded up.
 * - The distance to one part of the name ("output" of "output-dir"), plus one.
 * - 2 if the word abbreviates the name, 3 if it abbreviates one part of the name.
 * - The number of additional parts, if the one contains all parts of the other ("format" in
 *   "output-format").
 *
 * Returns NOT_NEAR if none of them applies. */
static size_t
far_from(const char *word, const char *name)
{
    size_t len = strlen(word), best = distance(word, name), more = parts_more(word, name),
           fewer = parts_more(name, word);
    char part[66];

    /* A name that starts with the word is a better guess than a name at the same edit distance. */
    if (len >= 3 && strncmp(name, word, len) == 0)
        return best < 1 ? best : 1;
    best = best <= (len + 2) / 3 ? best : NOT_NEAR;
    if (is_abbreviation(word, name) && best > 2)
        best = 2;
    for (const char *dash = strchr(name, '-'); len >= 3 && dash != NULL;
         dash = strchr(dash + 1, '-')) {
        size_t front, back = distance(word, dash + 1);

        snprintf(part, sizeof(part), "%.*s", (int) (dash - name), name);
        front = distance(word, part);
        front = front < back ? front : back;
        if (front <= len / 3 && front + 1 < best)
            best = front + 1;
        if ((is_abbreviation(word, part) || is_abbreviation(word, dash + 1)) && best > 3)
            best = 3;
    }
    more = more < fewer ? more : fewer;
    return more < best ? more : best;
}

/* Finds up to MRD_NEAR_MAX names that are nearest to a word and equally near. Returns their number,
 * 0 if no name is near. */
static size_t
nearest(const char *word, const char *const *names, size_t n, const char *ret_near[MRD_NEAR_MAX])
{
    size_t best = NOT_NEAR - 1, found = 0;

    for (size_t i = 0; i < n; i++) {
        size_t d = far_from(word, names[i]);

        if (d < best) {
            best = d;
            found = 0;
        }
        for (size_t k = 0; k < found && d == best; k++)
            /* skip a name that is listed twice */
            d = strcmp(ret_near[k], names[i]) == 0 ? NOT_NEAR : d;
        if (d == best && found < MRD_NEAR_MAX)
            ret_near[found++] = names[i];
    }
    return found;
}

const char *
mrd_nearest(const char *word, const char *const *names, size_t n)
{
    const char *near[MRD_NEAR_MAX];

    return nearest(word, names, n, near) == 0 ? NULL : near[0];
}

char *
mrd_near_text(const char *word, const char *const *names, size_t n, const char *dashes,
              char text[MRD_NEAR_TEXT])
{
    const char *near[MRD_NEAR_MAX];
    size_t found = nearest(word, names, n, near), at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < found; i++)
        at += (size_t) snprintf(text + at, MRD_NEAR_TEXT - at, "%s%s%.70s",
                                i == 0           ? ": did you mean "
                                : i + 1 == found ? " or "
                                                 : ", ",
                                dashes, near[i]);
    if (found > 0)
        snprintf(text + at, MRD_NEAR_TEXT - at, "?");
    return text;
}
