package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.VirtualColumn
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression}
import org.apache.spark.sql.catalyst.plans.{NaturalJoin, UsingJoin}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.MetadataBuilder

/**
 * One side of a USING or NATURAL join that may have to show virtual partition columns. Spark's own rule takes a join as
 * soon as both sides are resolved, and knows visible columns only; this node is never resolved, so that the rule waits.
 */
case class JoinSide(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): JoinSide = copy(child = newChild)
}

/** Marks the sides of USING and NATURAL joins, before Spark resolves what they read. */
object MarkJoinSides extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case join @ Join(left, right, _: UsingJoin | _: NaturalJoin, _, _)
        if !left.isInstanceOf[JoinSide] && !right.isInstanceOf[JoinSide] =>
      join.copy(left = JoinSide(left), right = JoinSide(right))
  }
}

/** Shows the virtual partition columns that a USING or NATURAL join joins by; then Spark's rule does the rest. */
object ShowJoinColumns extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case join @ Join(JoinSide(left), JoinSide(right), using: UsingJoin, _, _) if left.resolved && right.resolved =>
      showing(join, left, right, using.usingColumns)
    case join @ Join(JoinSide(left), JoinSide(right), _: NaturalJoin, _, _) if left.resolved && right.resolved =>
      // As if the keys were columns like any other, at least where the other side has one of that name too.
      val (keysLeft, keysRight) = (keys(left), keys(right))
      val common = keysLeft.filter(key => (right.output ++ keysRight).exists(same(_, key.name))) ++
        keysRight.filter(key => left.output.exists(same(_, key.name)))
      showing(join, left, right, common.map(_.name).distinct)
  }

  private def showing(join: Join, left: LogicalPlan, right: LogicalPlan, names: Seq[String]): Join =
    join.copy(left = showing(left, hidden(left, names)), right = showing(right, hidden(right, names)))

  /** Of these columns those that the plan has and does not show. */
  private def hidden(plan: LogicalPlan, names: Seq[String]): Seq[Attribute] =
    names.filterNot(name => plan.output.exists(same(_, name))).flatMap(name => keys(plan).find(same(_, name)))

  private def keys(plan: LogicalPlan): Seq[Attribute] =
    plan.metadataOutput.filter(_.metadata.contains(VirtualColumn.KeyMark))

  private def same(attribute: Attribute, name: String): Boolean = SQLConf.get.resolver(attribute.name, name)

  private def showing(plan: LogicalPlan, columns: Seq[Attribute]): LogicalPlan =
    if (columns.isEmpty) plan else Project(plan.output ++ columns.map(visible), plan)

  // Under a new id and without Spark's mark of a metadata column: from here on it is a column like any other.
  private def visible(column: Attribute): NamedExpression =
    Alias(column, column.name)(qualifier = column.qualifier, explicitMetadata = Some(new MetadataBuilder().build()))
}
