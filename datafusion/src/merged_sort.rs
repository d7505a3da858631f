//! The optimizer rule: partitions that are sorted for their first rows, which are then merged, are sorted by all keys of the merge.
//!
//! DataFusion (55) leaves out keys that are the same in all rows of a partition, such as the constant of a branch of UNION ALL, and lets
//! each partition skip rows that are no better than the last of those that any partition has found. With keys left out, rows that
//! are better by them are skipped as well, now and then: answers depend on which partition is faster.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// The rule.
#[derive(Debug)]
pub(crate) struct MergedSortKeys;

impl PhysicalOptimizerRule for MergedSortKeys {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let sort = sort_by_all_keys(&plan);
            match sort {
                Some(sort) => Ok(Transformed::yes(replace_children_if_necessary(
                    plan,
                    vec![sort],
                )?)),
                None => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "zipfdb_merged_sort_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The sort below a merge, if it has other keys.
fn sort_by_all_keys(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let merge = plan.downcast_ref::<SortPreservingMergeExec>()?;
    let sort = merge.input().downcast_ref::<SortExec>()?;
    if sort.fetch().is_none() || sort.expr() == merge.expr() {
        return None;
    }
    let whole = SortExec::new(merge.expr().clone(), sort.input().clone())
        .with_preserve_partitioning(sort.preserve_partitioning())
        .with_fetch(sort.fetch());
    Some(Arc::new(whole))
}
