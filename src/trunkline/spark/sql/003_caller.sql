/* Staging tables belong to the role that trunkline._caller() names, as everything else does. */
drop function if exists trunkline._spark_maker();
