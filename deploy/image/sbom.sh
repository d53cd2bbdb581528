#!/bin/sh
# Writes what is in this image as SPDX 2.3 in JSON: Meridian and each Debian package with its version and source package.
# VERSION, MERIDIAN_COMMIT and SOURCE_DATE_EPOCH say what is built; nothing else of the moment is in it.
set -eu
version=${VERSION:-unknown} commit=${MERIDIAN_COMMIT:-unknown} epoch=${SOURCE_DATE_EPOCH:-0}
created=$(LC_ALL=C date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
distribution=$(. /etc/os-release && printf %s "$VERSION_CODENAME")
printf '{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"SPDXRef-DOCUMENT","name":"meridian-%s",' "$version"
printf '"documentNamespace":"https://meridian.dev/spdx/%s-%s","creationInfo":{"created":"%s","creators":["Tool: meridian-sbom.sh"]},\n' "$version" "$commit" "$created"
printf '"packages":[\n{"SPDXID":"SPDXRef-meridian","name":"meridian","versionInfo":"%s","downloadLocation":"NOASSERTION","filesAnalyzed":false,' "$version"
printf '"licenseConcluded":"Apache-2.0","licenseDeclared":"Apache-2.0","copyrightText":"NOASSERTION","sourceInfo":"commit %s"}' "$commit"
# shellcheck disable=SC2016 # the variables are dpkg-query's
dpkg-query -W -f '${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n' | LC_ALL=C sort |
    awk -F '\t' -v distribution="$distribution" '{
        id = $1; gsub(/[^A-Za-z0-9.-]/, "-", id)
        name = $1; sub(/:.*/, "", name)
        purl = $2; gsub(/:/, "%3A", purl); gsub(/[+]/, "%2B", purl); gsub(/~/, "%7E", purl)
        printf ",\n{\"SPDXID\":\"SPDXRef-deb-%s\",\"name\":\"%s\",\"versionInfo\":\"%s\",\"downloadLocation\":\"NOASSERTION\",\"filesAnalyzed\":false,", id, name, $2
        printf "\"licenseConcluded\":\"NOASSERTION\",\"licenseDeclared\":\"NOASSERTION\",\"copyrightText\":\"NOASSERTION\",\"sourceInfo\":\"built from %s %s\",", $4, $5
        printf "\"externalRefs\":[{\"referenceCategory\":\"PACKAGE-MANAGER\",\"referenceType\":\"purl\",\"referenceLocator\":\"pkg:deb/debian/%s@%s?arch=%s&distro=%s\"}]}", name, purl, $3, distribution
    }'
printf '],\n"relationships":[{"spdxElementId":"SPDXRef-DOCUMENT","relationshipType":"DESCRIBES","relatedSpdxElement":"SPDXRef-meridian"}'
# shellcheck disable=SC2016
dpkg-query -W -f '${binary:Package}\n' | LC_ALL=C sort | awk '{
    id = $1; gsub(/[^A-Za-z0-9.-]/, "-", id)
    printf ",\n{\"spdxElementId\":\"SPDXRef-DOCUMENT\",\"relationshipType\":\"DESCRIBES\",\"relatedSpdxElement\":\"SPDXRef-deb-%s\"}", id
}'
printf ']}\n'
