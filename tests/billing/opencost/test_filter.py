"""OpenCost's filter language and its older parameters: every operator, every way to group, every fault with its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.billing.opencost.filter import DEPTH_MAX, FIELDS, LENGTH_MAX, MAPS, OPERATORS, fields, legacy, parse
from gpuwatch.billing.opencost.subject import Subject, name_of, needed, parse_aggregate
from gpuwatch.core.errors import UsageError

LABELS = {"app": "chat", "app_kubernetes_io_name": "chat-api", "env": "prod"}
POD = Subject(
    cluster="c1",
    node="n1",
    namespace="kubecost",
    controller_kind="deployment",
    controller="chat",
    pod="chat-7d9f-abcde",
    container="main",
    team="search",
    labels=tuple(LABELS.items()),
    label_map=LABELS,
)
JOB = Subject(cluster="c1", node="n2", namespace="h100", controller_kind="slurmjob", controller="4711", pod="4711")
BARE = Subject(cluster="c1")

FILTERS = [
    ("", True, "no filter lets all through"),
    ('namespace:"kubecost"', True, "equal"),
    ('namespace:"kube"', False, "equal is the whole value"),
    ('namespace!:"kubecost"', False, "not equal"),
    ('namespace!:"other"', True, "not equal to another"),
    ('namespace~:"bec"', True, "contains"),
    ('namespace!~:"bec"', False, "does not contain"),
    ('namespace<~:"kube"', True, "begins with"),
    ('namespace!<~:"kube"', False, "does not begin with"),
    ('namespace~>:"cost"', True, "ends with"),
    ('namespace!~>:"cost"', False, "does not end with"),
    ('namespace:"a","kubecost"', True, "a comma is or"),
    ('namespace!:"a","kubecost"', False, "a comma behind a negation is none of them"),
    ('namespace:"kubecost"+node:"n1"', True, "plus is and"),
    ('namespace:"kubecost"+node:"n2"', False, "plus wants both"),
    ('namespace:"a"|node:"n1"', True, "a bar is or"),
    ('namespace:"kubecost" node:"n1"', True, "a blank is and"),
    ('namespace:"kubecost" node:"n2"', False, "a blank wants both"),
    ('namespace:"kubecost" + node:"n1"', True, "blanks around an operator say nothing"),
    ('(namespace:"a"|node:"n1")+cluster:"c1"', True, "parentheses group"),
    ('cluster:"c1"+(namespace:"a"|(node:"n1"+pod~:"chat"))', True, "parentheses within parentheses"),
    ('((namespace:"kubecost"))', True, "parentheses around one condition"),
    ('label[app]:"chat"', True, "a label"),
    ('label[app]!:"chat"', False, "a label that must not be"),
    ('label[app.kubernetes.io/name]:"chat-api"', True, "names of labels are sanitised"),
    ('label:"app"', True, "label without a name asks whether there is one"),
    ('label!:"app"', False, "or whether there is none"),
    ('label:"missing"', False, "a label that there is not"),
    ('label[missing]:""', True, "a missing label is empty"),
    ('label[missing]:"__unallocated__"', True, "or unallocated"),
    ('annotation[app]:"chat"', False, "annotations are none"),
    ('controllerKind:"deployment"+controllerName:"chat"', True, "controllers"),
    ('services:"web"', False, "services are none"),
    ('services:"__unallocated__"', True, "and so unallocated"),
    ('environment:"prod"', True, "an alias is its label"),
    ('team:"search"', True, "team is the team that pays"),
    ('container:"main"', True, "a container"),
    ('provider:"n1"', True, "the provider's id is the node"),
    ('namespace:"a+b|(c),d"|node:"n1"', True, "quotes hide operators"),
]
BROKEN = [
    ('namespace:"a"+', 15, "an operator at the end"),
    ("namespace", 10, "a field alone"),
    ("namespace:a", 11, "a value without quotes"),
    ('namespace:"a', 11, "a quote that does not end"),
    ('label[app:"a"', 6, "a bracket that does not end"),
    ('nosuch:"a"', 1, "a field that is none"),
    ('namespace="a"', 10, "an operator that is none"),
    ('namespace:"a")', 14, "a parenthesis too many"),
    ('(namespace:"a"', 15, "a parenthesis too few"),
    ('namespace:"a"|node:"b"+pod:"c"', 24, "and within or"),
    ('namespace:"a"+node:"b"|pod:"c"', 24, "or within and"),
    ('namespace:"a",', 15, "a comma at the end"),
    ("()", 2, "nothing in parentheses"),
    ('é:"a"', 1, "a letter of no field"),
]


@pytest.mark.parametrize(("text", "kept"), [f[:2] for f in FILTERS], ids=[f[2] for f in FILTERS])
def test_what_a_filter_keeps(text: str, kept: bool) -> None:
    assert kept is parse(text).matches(POD)


@pytest.mark.parametrize(("text", "position"), [f[:2] for f in BROKEN], ids=[f[2] for f in BROKEN])
def test_a_fault_is_reported_with_its_place(text: str, position: int) -> None:
    with pytest.raises(UsageError, match=f"^filter: position {position}:"):
        parse(text)


def test_depth_and_length_are_bounded() -> None:
    deep = "(" * DEPTH_MAX + 'namespace:"a"' + ")" * DEPTH_MAX

    assert not parse(deep).matches(POD)
    with pytest.raises(UsageError, match="parentheses deep"):
        parse(f"({deep})")
    with pytest.raises(UsageError, match="longer than"):
        parse(" " * (LENGTH_MAX + 1))


values = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=8)
comparisons = st.builds(
    lambda name, sign, found: f"{name}{sign}" + ",".join(f'"{value}"' for value in found),
    st.sampled_from([*FIELDS, "label[app]", "label", "annotation[x]", "team", "owner"]),
    st.sampled_from(sorted(OPERATORS)),
    st.lists(values, min_size=1, max_size=3),
)
trees = st.recursive(
    comparisons,
    lambda inner: st.builds(
        lambda sign, members: sign.join(f"({member})" for member in members),
        st.sampled_from(["+", "|", " "]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(trees)
def test_all_that_the_grammar_makes_is_read(text: str) -> None:
    """And a filter and its parenthesised self say the same."""
    node = parse(text)

    assert [parse(f"({text})").matches(s) for s in (POD, JOB, BARE)] == [node.matches(s) for s in (POD, JOB, BARE)]
    assert fields(node) <= {*FIELDS.values(), *MAPS, "team", "owner"}


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text(st.sampled_from('label[app]:"x"+|,()!~<> namespace'), max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        node = parse(text)
    except UsageError as error:
        assert str(error).startswith("filter:")
        return

    assert node.matches(POD) in (True, False)


OLDER = [
    ({}, True, "no parameter lets all through"),
    ({"filterNamespaces": "a,kubecost"}, True, "one of several"),
    ({"filterNamespaces": "a,b"}, False, "none of several"),
    ({"filterNamespaces": "kube*"}, True, "a prefix"),
    ({"filterNamespaces": "kubecost", "filterNodes": "n2"}, False, "all parameters"),
    ({"filterControllers": "deployment:chat"}, True, "kind and name"),
    ({"filterControllers": "job:chat,chat"}, True, "a name of any kind"),
    ({"filterControllers": "job:chat"}, False, "the name of another kind"),
    ({"filterLabels": "app:chat"}, True, "a label"),
    ({"filterLabels": "app.kubernetes.io/name:chat*"}, True, "a sanitised label by prefix"),
    ({"filterAnnotations": "app:chat"}, False, "annotations are none"),
    ({"filterClusters": "c1", "filterPods": "chat-7d9f-abcde", "filterContainers": "main"}, True, "the pod"),
    ({"filterTeams": "search", "filterEnvironments": "prod"}, True, "aliases"),
    ({"filterControllerKinds": "statefulset"}, False, "a kind"),
    ({"filterServices": "web"}, False, "services are none"),
]


@pytest.mark.parametrize(("given_", "kept"), [o[:2] for o in OLDER], ids=[o[2] for o in OLDER])
def test_what_the_older_parameters_keep(given_: dict[str, str], kept: bool) -> None:
    assert kept is legacy(given_).matches(POD)


def test_a_label_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match="filterLabels: 'app': use name:value"):
        legacy({"filterLabels": "app"})


def test_nothing_is_shared_unless_named() -> None:
    assert not legacy({"filterNamespaces": "kubecost"}, share=True).matches(POD)
    assert legacy({"shareNamespaces": "x", "shareLabels": "app:chat"}, share=True).matches(POD)


AGGREGATES = [
    ("namespace", "kubecost", "h100"),
    ("", "c1/n1/kubecost/chat-7d9f-abcde/main", "c1/n2/h100/4711/__unallocated__"),
    ("all", "", ""),
    ("controller", "deployment:chat", "slurmjob:4711"),
    ("controllerKind", "deployment", "slurmjob"),
    ("deployment", "chat", "__unallocated__"),
    ("statefulset", "__unallocated__", "__unallocated__"),
    ("job", "__unallocated__", "4711"),
    ("service", "__unallocated__", "__unallocated__"),
    ("label:app", "chat", "__unallocated__"),
    ("label:app.kubernetes.io/name", "chat-api", "__unallocated__"),
    ("annotation:app", "__unallocated__", "__unallocated__"),
    ("product", "chat", "__unallocated__"),
    ("environment", "prod", "__unallocated__"),
    ("team", "search", "__unallocated__"),
    ("providerID", "n1", "n2"),
    ("namespace,label:app", "kubecost/chat", "h100/__unallocated__"),
    ("cluster, node ,pod", "c1/n1/chat-7d9f-abcde", "c1/n2/4711"),
]


@pytest.mark.parametrize(
    ("text", "pod", "job"), AGGREGATES, ids=[a[0] or "nothing is the container" for a in AGGREGATES]
)
def test_names_of_rows(text: str, pod: str, job: str) -> None:
    parts = parse_aggregate(text)

    assert [pod, job] == [name_of(subject, parts) for subject in (POD, JOB)]


def test_a_name_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        UsageError, match="aggregate 'namespce': not known; use cluster, node, namespace, controllerKind"
    ):
        parse_aggregate("cluster,namespce")


def test_only_words_that_are_read_are_asked_for() -> None:
    assert {"namespace"} == needed(parse_aggregate("namespace"))
    assert {"label"} == needed(parse_aggregate("product"))
    assert {"team"} == needed(parse_aggregate("team"))
    assert {"node", "namespace"} == needed(parse_aggregate("namespace"), {"provider_id"})
