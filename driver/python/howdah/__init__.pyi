# Made by driver/tools/generate_stubs.py.
from . import exceptions as exceptions
from . import notebook as _notebook
from ._version import __version__ as __version__
from .connection import Connection as Connection
from .connection import connect as connect
from .exceptions import ActiveSQLTransactionError as ActiveSQLTransactionError
from .exceptions import AdminShutdownError as AdminShutdownError
from .exceptions import AmbiguousAliasError as AmbiguousAliasError
from .exceptions import AmbiguousColumnError as AmbiguousColumnError
from .exceptions import AmbiguousFunctionError as AmbiguousFunctionError
from .exceptions import AmbiguousParameterError as AmbiguousParameterError
from .exceptions import ArraySubscriptError as ArraySubscriptError
from .exceptions import AssertError as AssertError
from .exceptions import BadCopyFileFormatError as BadCopyFileFormatError
from .exceptions import BranchTransactionAlreadyActiveError as BranchTransactionAlreadyActiveError
from .exceptions import CannotCoerceError as CannotCoerceError
from .exceptions import CannotConnectNowError as CannotConnectNowError
from .exceptions import CantChangeRuntimeParamError as CantChangeRuntimeParamError
from .exceptions import CardinalityViolationError as CardinalityViolationError
from .exceptions import CaseNotFoundError as CaseNotFoundError
from .exceptions import CharacterNotInRepertoireError as CharacterNotInRepertoireError
from .exceptions import CheckViolationError as CheckViolationError
from .exceptions import ClientCannotConnectError as ClientCannotConnectError
from .exceptions import ClientConfigurationError as ClientConfigurationError
from .exceptions import CollationMismatchError as CollationMismatchError
from .exceptions import ConfigFileError as ConfigFileError
from .exceptions import ConfigurationLimitExceededError as ConfigurationLimitExceededError
from .exceptions import ConnectionDoesNotExistError as ConnectionDoesNotExistError
from .exceptions import ConnectionFailureError as ConnectionFailureError
from .exceptions import ConnectionRejectionError as ConnectionRejectionError
from .exceptions import ContainingSQLNotPermittedError as ContainingSQLNotPermittedError
from .exceptions import CrashShutdownError as CrashShutdownError
from .exceptions import DataCorruptedError as DataCorruptedError
from .exceptions import DataError as DataError
from .exceptions import DatabaseDroppedError as DatabaseDroppedError
from .exceptions import DatatypeMismatchError as DatatypeMismatchError
from .exceptions import DatetimeFieldOverflowError as DatetimeFieldOverflowError
from .exceptions import DeadlockDetectedError as DeadlockDetectedError
from .exceptions import DependentObjectsStillExistError as DependentObjectsStillExistError
from .exceptions import DependentPrivilegeDescriptorsStillExistError as DependentPrivilegeDescriptorsStillExistError
from .exceptions import DeprecatedFeature as DeprecatedFeature
from .exceptions import DiagnosticsError as DiagnosticsError
from .exceptions import DiskFullError as DiskFullError
from .exceptions import DivisionByZeroError as DivisionByZeroError
from .exceptions import DuplicateAliasError as DuplicateAliasError
from .exceptions import DuplicateColumnError as DuplicateColumnError
from .exceptions import DuplicateCursorError as DuplicateCursorError
from .exceptions import DuplicateDatabaseError as DuplicateDatabaseError
from .exceptions import DuplicateFileError as DuplicateFileError
from .exceptions import DuplicateFunctionError as DuplicateFunctionError
from .exceptions import DuplicateJsonObjectKeyValueError as DuplicateJsonObjectKeyValueError
from .exceptions import DuplicateObjectError as DuplicateObjectError
from .exceptions import DuplicatePreparedStatementError as DuplicatePreparedStatementError
from .exceptions import DuplicateSchemaError as DuplicateSchemaError
from .exceptions import DuplicateTableError as DuplicateTableError
from .exceptions import DynamicResultSetsReturned as DynamicResultSetsReturned
from .exceptions import ErrorInAssignmentError as ErrorInAssignmentError
from .exceptions import EscapeCharacterConflictError as EscapeCharacterConflictError
from .exceptions import EventTriggerProtocolViolatedError as EventTriggerProtocolViolatedError
from .exceptions import ExclusionViolationError as ExclusionViolationError
from .exceptions import ExternalRoutineError as ExternalRoutineError
from .exceptions import ExternalRoutineInvocationError as ExternalRoutineInvocationError
from .exceptions import FDWColumnNameNotFoundError as FDWColumnNameNotFoundError
from .exceptions import FDWDynamicParameterValueNeededError as FDWDynamicParameterValueNeededError
from .exceptions import FDWError as FDWError
from .exceptions import FDWFunctionSequenceError as FDWFunctionSequenceError
from .exceptions import FDWInconsistentDescriptorInformationError as FDWInconsistentDescriptorInformationError
from .exceptions import FDWInvalidAttributeValueError as FDWInvalidAttributeValueError
from .exceptions import FDWInvalidColumnNameError as FDWInvalidColumnNameError
from .exceptions import FDWInvalidColumnNumberError as FDWInvalidColumnNumberError
from .exceptions import FDWInvalidDataTypeDescriptorsError as FDWInvalidDataTypeDescriptorsError
from .exceptions import FDWInvalidDataTypeError as FDWInvalidDataTypeError
from .exceptions import FDWInvalidDescriptorFieldIdentifierError as FDWInvalidDescriptorFieldIdentifierError
from .exceptions import FDWInvalidHandleError as FDWInvalidHandleError
from .exceptions import FDWInvalidOptionIndexError as FDWInvalidOptionIndexError
from .exceptions import FDWInvalidOptionNameError as FDWInvalidOptionNameError
from .exceptions import FDWInvalidStringFormatError as FDWInvalidStringFormatError
from .exceptions import FDWInvalidStringLengthOrBufferLengthError as FDWInvalidStringLengthOrBufferLengthError
from .exceptions import FDWInvalidUseOfNullPointerError as FDWInvalidUseOfNullPointerError
from .exceptions import FDWNoSchemasError as FDWNoSchemasError
from .exceptions import FDWOptionNameNotFoundError as FDWOptionNameNotFoundError
from .exceptions import FDWOutOfMemoryError as FDWOutOfMemoryError
from .exceptions import FDWReplyHandleError as FDWReplyHandleError
from .exceptions import FDWSchemaNotFoundError as FDWSchemaNotFoundError
from .exceptions import FDWTableNotFoundError as FDWTableNotFoundError
from .exceptions import FDWTooManyHandlesError as FDWTooManyHandlesError
from .exceptions import FDWUnableToCreateExecutionError as FDWUnableToCreateExecutionError
from .exceptions import FDWUnableToCreateReplyError as FDWUnableToCreateReplyError
from .exceptions import FDWUnableToEstablishConnectionError as FDWUnableToEstablishConnectionError
from .exceptions import FatalPostgresError as FatalPostgresError
from .exceptions import FeatureNotSupportedError as FeatureNotSupportedError
from .exceptions import FileNameTooLongError as FileNameTooLongError
from .exceptions import ForeignKeyViolationError as ForeignKeyViolationError
from .exceptions import FunctionExecutedNoReturnStatementError as FunctionExecutedNoReturnStatementError
from .exceptions import GeneratedAlwaysError as GeneratedAlwaysError
from .exceptions import GroupingError as GroupingError
from .exceptions import HeldCursorRequiresSameIsolationLevelError as HeldCursorRequiresSameIsolationLevelError
from .exceptions import IdleInTransactionSessionTimeoutError as IdleInTransactionSessionTimeoutError
from .exceptions import IdleSessionTimeoutError as IdleSessionTimeoutError
from .exceptions import ImplicitZeroBitPadding as ImplicitZeroBitPadding
from .exceptions import InFailedSQLTransactionError as InFailedSQLTransactionError
from .exceptions import InappropriateAccessModeForBranchTransactionError as InappropriateAccessModeForBranchTransactionError
from .exceptions import InappropriateIsolationLevelForBranchTransactionError as InappropriateIsolationLevelForBranchTransactionError
from .exceptions import IndeterminateCollationError as IndeterminateCollationError
from .exceptions import IndeterminateDatatypeError as IndeterminateDatatypeError
from .exceptions import IndexCorruptedError as IndexCorruptedError
from .exceptions import IndicatorOverflowError as IndicatorOverflowError
from .exceptions import InsufficientPrivilegeError as InsufficientPrivilegeError
from .exceptions import InsufficientResourcesError as InsufficientResourcesError
from .exceptions import IntegrityConstraintViolationError as IntegrityConstraintViolationError
from .exceptions import InterfaceError as InterfaceError
from .exceptions import InterfaceWarning as InterfaceWarning
from .exceptions import InternalClientError as InternalClientError
from .exceptions import InternalServerError as InternalServerError
from .exceptions import IntervalFieldOverflowError as IntervalFieldOverflowError
from .exceptions import InvalidArgumentForLogarithmError as InvalidArgumentForLogarithmError
from .exceptions import InvalidArgumentForNthValueFunctionError as InvalidArgumentForNthValueFunctionError
from .exceptions import InvalidArgumentForNtileFunctionError as InvalidArgumentForNtileFunctionError
from .exceptions import InvalidArgumentForPowerFunctionError as InvalidArgumentForPowerFunctionError
from .exceptions import InvalidArgumentForSQLJsonDatetimeFunctionError as InvalidArgumentForSQLJsonDatetimeFunctionError
from .exceptions import InvalidArgumentForWidthBucketFunctionError as InvalidArgumentForWidthBucketFunctionError
from .exceptions import InvalidArgumentForXqueryError as InvalidArgumentForXqueryError
from .exceptions import InvalidAuthorizationSpecificationError as InvalidAuthorizationSpecificationError
from .exceptions import InvalidBinaryRepresentationError as InvalidBinaryRepresentationError
from .exceptions import InvalidCachedStatementError as InvalidCachedStatementError
from .exceptions import InvalidCatalogNameError as InvalidCatalogNameError
from .exceptions import InvalidCharacterValueForCastError as InvalidCharacterValueForCastError
from .exceptions import InvalidColumnDefinitionError as InvalidColumnDefinitionError
from .exceptions import InvalidColumnReferenceError as InvalidColumnReferenceError
from .exceptions import InvalidCursorDefinitionError as InvalidCursorDefinitionError
from .exceptions import InvalidCursorNameError as InvalidCursorNameError
from .exceptions import InvalidCursorStateError as InvalidCursorStateError
from .exceptions import InvalidDatabaseDefinitionError as InvalidDatabaseDefinitionError
from .exceptions import InvalidDatetimeFormatError as InvalidDatetimeFormatError
from .exceptions import InvalidEscapeCharacterError as InvalidEscapeCharacterError
from .exceptions import InvalidEscapeOctetError as InvalidEscapeOctetError
from .exceptions import InvalidEscapeSequenceError as InvalidEscapeSequenceError
from .exceptions import InvalidForeignKeyError as InvalidForeignKeyError
from .exceptions import InvalidFunctionDefinitionError as InvalidFunctionDefinitionError
from .exceptions import InvalidGrantOperationError as InvalidGrantOperationError
from .exceptions import InvalidGrantorError as InvalidGrantorError
from .exceptions import InvalidIndicatorParameterValueError as InvalidIndicatorParameterValueError
from .exceptions import InvalidJsonTextError as InvalidJsonTextError
from .exceptions import InvalidLocatorSpecificationError as InvalidLocatorSpecificationError
from .exceptions import InvalidNameError as InvalidNameError
from .exceptions import InvalidObjectDefinitionError as InvalidObjectDefinitionError
from .exceptions import InvalidParameterValueError as InvalidParameterValueError
from .exceptions import InvalidPasswordError as InvalidPasswordError
from .exceptions import InvalidPrecedingOrFollowingSizeError as InvalidPrecedingOrFollowingSizeError
from .exceptions import InvalidPreparedStatementDefinitionError as InvalidPreparedStatementDefinitionError
from .exceptions import InvalidRecursionError as InvalidRecursionError
from .exceptions import InvalidRegularExpressionError as InvalidRegularExpressionError
from .exceptions import InvalidRoleSpecificationError as InvalidRoleSpecificationError
from .exceptions import InvalidRowCountInLimitClauseError as InvalidRowCountInLimitClauseError
from .exceptions import InvalidRowCountInResultOffsetClauseError as InvalidRowCountInResultOffsetClauseError
from .exceptions import InvalidSQLJsonSubscriptError as InvalidSQLJsonSubscriptError
from .exceptions import InvalidSQLStatementNameError as InvalidSQLStatementNameError
from .exceptions import InvalidSavepointSpecificationError as InvalidSavepointSpecificationError
from .exceptions import InvalidSchemaDefinitionError as InvalidSchemaDefinitionError
from .exceptions import InvalidSchemaNameError as InvalidSchemaNameError
from .exceptions import InvalidSqlstateReturnedError as InvalidSqlstateReturnedError
from .exceptions import InvalidTableDefinitionError as InvalidTableDefinitionError
from .exceptions import InvalidTablesampleArgumentError as InvalidTablesampleArgumentError
from .exceptions import InvalidTablesampleRepeatError as InvalidTablesampleRepeatError
from .exceptions import InvalidTextRepresentationError as InvalidTextRepresentationError
from .exceptions import InvalidTimeZoneDisplacementValueError as InvalidTimeZoneDisplacementValueError
from .exceptions import InvalidTransactionInitiationError as InvalidTransactionInitiationError
from .exceptions import InvalidTransactionStateError as InvalidTransactionStateError
from .exceptions import InvalidTransactionTerminationError as InvalidTransactionTerminationError
from .exceptions import InvalidUseOfEscapeCharacterError as InvalidUseOfEscapeCharacterError
from .exceptions import InvalidXmlCommentError as InvalidXmlCommentError
from .exceptions import InvalidXmlContentError as InvalidXmlContentError
from .exceptions import InvalidXmlDocumentError as InvalidXmlDocumentError
from .exceptions import InvalidXmlProcessingInstructionError as InvalidXmlProcessingInstructionError
from .exceptions import LocatorError as LocatorError
from .exceptions import LockFileExistsError as LockFileExistsError
from .exceptions import LockNotAvailableError as LockNotAvailableError
from .exceptions import ModifyingExternalRoutineSQLDataNotPermittedError as ModifyingExternalRoutineSQLDataNotPermittedError
from .exceptions import ModifyingSQLDataNotPermittedError as ModifyingSQLDataNotPermittedError
from .exceptions import MoreThanOneSQLJsonItemError as MoreThanOneSQLJsonItemError
from .exceptions import MostSpecificTypeMismatchError as MostSpecificTypeMismatchError
from .exceptions import NameTooLongError as NameTooLongError
from .exceptions import NoActiveSQLTransactionError as NoActiveSQLTransactionError
from .exceptions import NoActiveSQLTransactionForBranchTransactionError as NoActiveSQLTransactionForBranchTransactionError
from .exceptions import NoAdditionalDynamicResultSetsReturned as NoAdditionalDynamicResultSetsReturned
from .exceptions import NoData as NoData
from .exceptions import NoDataFoundError as NoDataFoundError
from .exceptions import NoSQLJsonItemError as NoSQLJsonItemError
from .exceptions import NonNumericSQLJsonItemError as NonNumericSQLJsonItemError
from .exceptions import NonUniqueKeysInAJsonObjectError as NonUniqueKeysInAJsonObjectError
from .exceptions import NonstandardUseOfEscapeCharacterError as NonstandardUseOfEscapeCharacterError
from .exceptions import NotAnXmlDocumentError as NotAnXmlDocumentError
from .exceptions import NotNullViolationError as NotNullViolationError
from .exceptions import NullValueEliminatedInSetFunction as NullValueEliminatedInSetFunction
from .exceptions import NullValueInExternalRoutineNotAllowedError as NullValueInExternalRoutineNotAllowedError
from .exceptions import NullValueNoIndicatorParameterError as NullValueNoIndicatorParameterError
from .exceptions import NullValueNotAllowedError as NullValueNotAllowedError
from .exceptions import NumericValueOutOfRangeError as NumericValueOutOfRangeError
from .exceptions import ObjectInUseError as ObjectInUseError
from .exceptions import ObjectNotInPrerequisiteStateError as ObjectNotInPrerequisiteStateError
from .exceptions import OperatorInterventionError as OperatorInterventionError
from .exceptions import OutOfMemoryError as OutOfMemoryError
from .exceptions import OutdatedSchemaCacheError as OutdatedSchemaCacheError
from .exceptions import PLPGSQLError as PLPGSQLError
from .exceptions import PostgresConnectionError as PostgresConnectionError
from .exceptions import PostgresError as PostgresError
from .exceptions import PostgresFloatingPointError as PostgresFloatingPointError
from .exceptions import PostgresIOError as PostgresIOError
from .exceptions import PostgresLogMessage as PostgresLogMessage
from .exceptions import PostgresSyntaxError as PostgresSyntaxError
from .exceptions import PostgresSystemError as PostgresSystemError
from .exceptions import PostgresWarning as PostgresWarning
from .exceptions import PrivilegeNotGranted as PrivilegeNotGranted
from .exceptions import PrivilegeNotRevoked as PrivilegeNotRevoked
from .exceptions import ProgramLimitExceededError as ProgramLimitExceededError
from .exceptions import ProhibitedExternalRoutineSQLStatementAttemptedError as ProhibitedExternalRoutineSQLStatementAttemptedError
from .exceptions import ProhibitedSQLStatementAttemptedError as ProhibitedSQLStatementAttemptedError
from .exceptions import ProtocolError as ProtocolError
from .exceptions import ProtocolViolationError as ProtocolViolationError
from .exceptions import QueryCanceledError as QueryCanceledError
from .exceptions import RaiseError as RaiseError
from .exceptions import ReadOnlySQLTransactionError as ReadOnlySQLTransactionError
from .exceptions import ReadingExternalRoutineSQLDataNotPermittedError as ReadingExternalRoutineSQLDataNotPermittedError
from .exceptions import ReadingSQLDataNotPermittedError as ReadingSQLDataNotPermittedError
from .exceptions import ReservedNameError as ReservedNameError
from .exceptions import RestrictViolationError as RestrictViolationError
from .exceptions import SQLJsonArrayNotFoundError as SQLJsonArrayNotFoundError
from .exceptions import SQLJsonItemCannotBeCastToTargetTypeError as SQLJsonItemCannotBeCastToTargetTypeError
from .exceptions import SQLJsonMemberNotFoundError as SQLJsonMemberNotFoundError
from .exceptions import SQLJsonNumberNotFoundError as SQLJsonNumberNotFoundError
from .exceptions import SQLJsonObjectNotFoundError as SQLJsonObjectNotFoundError
from .exceptions import SQLJsonScalarRequiredError as SQLJsonScalarRequiredError
from .exceptions import SQLRoutineError as SQLRoutineError
from .exceptions import SQLStatementNotYetCompleteError as SQLStatementNotYetCompleteError
from .exceptions import SavepointError as SavepointError
from .exceptions import SchemaAndDataStatementMixingNotSupportedError as SchemaAndDataStatementMixingNotSupportedError
from .exceptions import SequenceGeneratorLimitExceededError as SequenceGeneratorLimitExceededError
from .exceptions import SerializationError as SerializationError
from .exceptions import SingletonSQLJsonItemRequiredError as SingletonSQLJsonItemRequiredError
from .exceptions import SnapshotTooOldError as SnapshotTooOldError
from .exceptions import SrfProtocolViolatedError as SrfProtocolViolatedError
from .exceptions import StackedDiagnosticsAccessedWithoutActiveHandlerError as StackedDiagnosticsAccessedWithoutActiveHandlerError
from .exceptions import StatementCompletionUnknownError as StatementCompletionUnknownError
from .exceptions import StatementTooComplexError as StatementTooComplexError
from .exceptions import StringDataLengthMismatchError as StringDataLengthMismatchError
from .exceptions import StringDataRightTruncation as StringDataRightTruncation
from .exceptions import StringDataRightTruncationError as StringDataRightTruncationError
from .exceptions import SubstringError as SubstringError
from .exceptions import SyntaxOrAccessError as SyntaxOrAccessError
from .exceptions import TargetServerAttributeNotMatched as TargetServerAttributeNotMatched
from .exceptions import TooManyArgumentsError as TooManyArgumentsError
from .exceptions import TooManyColumnsError as TooManyColumnsError
from .exceptions import TooManyConnectionsError as TooManyConnectionsError
from .exceptions import TooManyJsonArrayElementsError as TooManyJsonArrayElementsError
from .exceptions import TooManyJsonObjectMembersError as TooManyJsonObjectMembersError
from .exceptions import TooManyRowsError as TooManyRowsError
from .exceptions import TransactionIntegrityConstraintViolationError as TransactionIntegrityConstraintViolationError
from .exceptions import TransactionResolutionUnknownError as TransactionResolutionUnknownError
from .exceptions import TransactionRollbackError as TransactionRollbackError
from .exceptions import TransactionTimeoutError as TransactionTimeoutError
from .exceptions import TriggerProtocolViolatedError as TriggerProtocolViolatedError
from .exceptions import TriggeredActionError as TriggeredActionError
from .exceptions import TriggeredDataChangeViolationError as TriggeredDataChangeViolationError
from .exceptions import TrimError as TrimError
from .exceptions import UndefinedColumnError as UndefinedColumnError
from .exceptions import UndefinedFileError as UndefinedFileError
from .exceptions import UndefinedFunctionError as UndefinedFunctionError
from .exceptions import UndefinedObjectError as UndefinedObjectError
from .exceptions import UndefinedParameterError as UndefinedParameterError
from .exceptions import UndefinedTableError as UndefinedTableError
from .exceptions import UniqueViolationError as UniqueViolationError
from .exceptions import UnknownPostgresError as UnknownPostgresError
from .exceptions import UnsafeNewEnumValueUsageError as UnsafeNewEnumValueUsageError
from .exceptions import UnsupportedClientFeatureError as UnsupportedClientFeatureError
from .exceptions import UnsupportedServerFeatureError as UnsupportedServerFeatureError
from .exceptions import UnterminatedCStringError as UnterminatedCStringError
from .exceptions import UntranslatableCharacterError as UntranslatableCharacterError
from .exceptions import WindowingError as WindowingError
from .exceptions import WithCheckOptionViolationError as WithCheckOptionViolationError
from .exceptions import WrongObjectTypeError as WrongObjectTypeError
from .exceptions import ZeroLengthCharacterStringError as ZeroLengthCharacterStringError
from .notifications import Notification as Notification
from .notifications import Notifications as Notifications
from .pool import Pool as Pool
from .pool import PoolStatistics as PoolStatistics
from .pool import create_pool as create_pool
from .protocol import Record as Record
from .records import AttributeRecord as AttributeRecord
from .replacement import install_as_asyncpg as install_as_asyncpg
from .reports import Report as Report
from .training import ProgressBar as ProgressBar
from .training import TrainingProgress as TrainingProgress
from .types import Attribute as Attribute
from .types import BitString as BitString
from .types import Box as Box
from .types import Circle as Circle
from .types import Line as Line
from .types import LineSegment as LineSegment
from .types import Path as Path
from .types import Point as Point
from .types import Polygon as Polygon
from .types import Range as Range
from .types import ServerVersion as ServerVersion
from .types import Type as Type
paramstyle: str

__all__ = (
    "AttributeRecord",
    "Connection",
    "Notification",
    "Notifications",
    "Pool",
    "PoolStatistics",
    "ProgressBar",
    "Record",
    "Report",
    "TrainingProgress",
    "connect",
    "create_pool",
    "install_as_asyncpg",
    "ClientConfigurationError",
    "FatalPostgresError",
    "InterfaceError",
    "InterfaceWarning",
    "InternalClientError",
    "OutdatedSchemaCacheError",
    "PostgresError",
    "PostgresLogMessage",
    "ProtocolError",
    "TargetServerAttributeNotMatched",
    "UnknownPostgresError",
    "UnsupportedClientFeatureError",
    "UnsupportedServerFeatureError",
    "PostgresWarning",
    "NullValueEliminatedInSetFunction",
    "StringDataRightTruncation",
    "PrivilegeNotRevoked",
    "PrivilegeNotGranted",
    "ImplicitZeroBitPadding",
    "DynamicResultSetsReturned",
    "DeprecatedFeature",
    "NoData",
    "NoAdditionalDynamicResultSetsReturned",
    "SQLStatementNotYetCompleteError",
    "PostgresConnectionError",
    "ClientCannotConnectError",
    "ConnectionDoesNotExistError",
    "ConnectionRejectionError",
    "ConnectionFailureError",
    "TransactionResolutionUnknownError",
    "ProtocolViolationError",
    "TriggeredActionError",
    "FeatureNotSupportedError",
    "InvalidCachedStatementError",
    "InvalidTransactionInitiationError",
    "LocatorError",
    "InvalidLocatorSpecificationError",
    "InvalidGrantorError",
    "InvalidGrantOperationError",
    "InvalidRoleSpecificationError",
    "DiagnosticsError",
    "StackedDiagnosticsAccessedWithoutActiveHandlerError",
    "InvalidArgumentForXqueryError",
    "CaseNotFoundError",
    "CardinalityViolationError",
    "DataError",
    "StringDataRightTruncationError",
    "NullValueNoIndicatorParameterError",
    "NumericValueOutOfRangeError",
    "NullValueNotAllowedError",
    "ErrorInAssignmentError",
    "InvalidDatetimeFormatError",
    "DatetimeFieldOverflowError",
    "InvalidTimeZoneDisplacementValueError",
    "EscapeCharacterConflictError",
    "InvalidUseOfEscapeCharacterError",
    "InvalidEscapeOctetError",
    "ZeroLengthCharacterStringError",
    "MostSpecificTypeMismatchError",
    "SequenceGeneratorLimitExceededError",
    "NotAnXmlDocumentError",
    "InvalidXmlDocumentError",
    "InvalidXmlContentError",
    "InvalidXmlCommentError",
    "InvalidXmlProcessingInstructionError",
    "InvalidIndicatorParameterValueError",
    "SubstringError",
    "DivisionByZeroError",
    "InvalidPrecedingOrFollowingSizeError",
    "InvalidArgumentForNtileFunctionError",
    "IntervalFieldOverflowError",
    "InvalidArgumentForNthValueFunctionError",
    "InvalidCharacterValueForCastError",
    "InvalidEscapeCharacterError",
    "InvalidRegularExpressionError",
    "InvalidArgumentForLogarithmError",
    "InvalidArgumentForPowerFunctionError",
    "InvalidArgumentForWidthBucketFunctionError",
    "InvalidRowCountInLimitClauseError",
    "InvalidRowCountInResultOffsetClauseError",
    "CharacterNotInRepertoireError",
    "IndicatorOverflowError",
    "InvalidParameterValueError",
    "UnterminatedCStringError",
    "InvalidEscapeSequenceError",
    "StringDataLengthMismatchError",
    "TrimError",
    "ArraySubscriptError",
    "InvalidTablesampleRepeatError",
    "InvalidTablesampleArgumentError",
    "DuplicateJsonObjectKeyValueError",
    "InvalidArgumentForSQLJsonDatetimeFunctionError",
    "InvalidJsonTextError",
    "InvalidSQLJsonSubscriptError",
    "MoreThanOneSQLJsonItemError",
    "NoSQLJsonItemError",
    "NonNumericSQLJsonItemError",
    "NonUniqueKeysInAJsonObjectError",
    "SingletonSQLJsonItemRequiredError",
    "SQLJsonArrayNotFoundError",
    "SQLJsonMemberNotFoundError",
    "SQLJsonNumberNotFoundError",
    "SQLJsonObjectNotFoundError",
    "TooManyJsonArrayElementsError",
    "TooManyJsonObjectMembersError",
    "SQLJsonScalarRequiredError",
    "SQLJsonItemCannotBeCastToTargetTypeError",
    "PostgresFloatingPointError",
    "InvalidTextRepresentationError",
    "InvalidBinaryRepresentationError",
    "BadCopyFileFormatError",
    "UntranslatableCharacterError",
    "NonstandardUseOfEscapeCharacterError",
    "IntegrityConstraintViolationError",
    "RestrictViolationError",
    "NotNullViolationError",
    "ForeignKeyViolationError",
    "UniqueViolationError",
    "CheckViolationError",
    "ExclusionViolationError",
    "InvalidCursorStateError",
    "InvalidTransactionStateError",
    "ActiveSQLTransactionError",
    "BranchTransactionAlreadyActiveError",
    "InappropriateAccessModeForBranchTransactionError",
    "InappropriateIsolationLevelForBranchTransactionError",
    "NoActiveSQLTransactionForBranchTransactionError",
    "ReadOnlySQLTransactionError",
    "SchemaAndDataStatementMixingNotSupportedError",
    "HeldCursorRequiresSameIsolationLevelError",
    "NoActiveSQLTransactionError",
    "InFailedSQLTransactionError",
    "IdleInTransactionSessionTimeoutError",
    "TransactionTimeoutError",
    "InvalidSQLStatementNameError",
    "TriggeredDataChangeViolationError",
    "InvalidAuthorizationSpecificationError",
    "InvalidPasswordError",
    "DependentPrivilegeDescriptorsStillExistError",
    "DependentObjectsStillExistError",
    "InvalidTransactionTerminationError",
    "SQLRoutineError",
    "ModifyingSQLDataNotPermittedError",
    "ProhibitedSQLStatementAttemptedError",
    "ReadingSQLDataNotPermittedError",
    "FunctionExecutedNoReturnStatementError",
    "InvalidCursorNameError",
    "ExternalRoutineError",
    "ContainingSQLNotPermittedError",
    "ModifyingExternalRoutineSQLDataNotPermittedError",
    "ProhibitedExternalRoutineSQLStatementAttemptedError",
    "ReadingExternalRoutineSQLDataNotPermittedError",
    "ExternalRoutineInvocationError",
    "InvalidSqlstateReturnedError",
    "NullValueInExternalRoutineNotAllowedError",
    "TriggerProtocolViolatedError",
    "SrfProtocolViolatedError",
    "EventTriggerProtocolViolatedError",
    "SavepointError",
    "InvalidSavepointSpecificationError",
    "InvalidCatalogNameError",
    "InvalidSchemaNameError",
    "TransactionRollbackError",
    "SerializationError",
    "TransactionIntegrityConstraintViolationError",
    "StatementCompletionUnknownError",
    "DeadlockDetectedError",
    "SyntaxOrAccessError",
    "InsufficientPrivilegeError",
    "PostgresSyntaxError",
    "InvalidNameError",
    "InvalidColumnDefinitionError",
    "NameTooLongError",
    "DuplicateColumnError",
    "AmbiguousColumnError",
    "UndefinedColumnError",
    "UndefinedObjectError",
    "DuplicateObjectError",
    "DuplicateAliasError",
    "DuplicateFunctionError",
    "AmbiguousFunctionError",
    "GroupingError",
    "DatatypeMismatchError",
    "WrongObjectTypeError",
    "InvalidForeignKeyError",
    "CannotCoerceError",
    "UndefinedFunctionError",
    "GeneratedAlwaysError",
    "ReservedNameError",
    "UndefinedTableError",
    "UndefinedParameterError",
    "DuplicateCursorError",
    "DuplicateDatabaseError",
    "DuplicatePreparedStatementError",
    "DuplicateSchemaError",
    "DuplicateTableError",
    "AmbiguousParameterError",
    "AmbiguousAliasError",
    "InvalidColumnReferenceError",
    "InvalidCursorDefinitionError",
    "InvalidDatabaseDefinitionError",
    "InvalidFunctionDefinitionError",
    "InvalidPreparedStatementDefinitionError",
    "InvalidSchemaDefinitionError",
    "InvalidTableDefinitionError",
    "InvalidObjectDefinitionError",
    "IndeterminateDatatypeError",
    "InvalidRecursionError",
    "WindowingError",
    "CollationMismatchError",
    "IndeterminateCollationError",
    "WithCheckOptionViolationError",
    "InsufficientResourcesError",
    "DiskFullError",
    "OutOfMemoryError",
    "TooManyConnectionsError",
    "ConfigurationLimitExceededError",
    "ProgramLimitExceededError",
    "StatementTooComplexError",
    "TooManyColumnsError",
    "TooManyArgumentsError",
    "ObjectNotInPrerequisiteStateError",
    "ObjectInUseError",
    "CantChangeRuntimeParamError",
    "LockNotAvailableError",
    "UnsafeNewEnumValueUsageError",
    "OperatorInterventionError",
    "QueryCanceledError",
    "AdminShutdownError",
    "CrashShutdownError",
    "CannotConnectNowError",
    "DatabaseDroppedError",
    "IdleSessionTimeoutError",
    "PostgresSystemError",
    "PostgresIOError",
    "UndefinedFileError",
    "DuplicateFileError",
    "FileNameTooLongError",
    "SnapshotTooOldError",
    "ConfigFileError",
    "LockFileExistsError",
    "FDWError",
    "FDWOutOfMemoryError",
    "FDWDynamicParameterValueNeededError",
    "FDWInvalidDataTypeError",
    "FDWColumnNameNotFoundError",
    "FDWInvalidDataTypeDescriptorsError",
    "FDWInvalidColumnNameError",
    "FDWInvalidColumnNumberError",
    "FDWInvalidUseOfNullPointerError",
    "FDWInvalidStringFormatError",
    "FDWInvalidHandleError",
    "FDWInvalidOptionIndexError",
    "FDWInvalidOptionNameError",
    "FDWOptionNameNotFoundError",
    "FDWReplyHandleError",
    "FDWUnableToCreateExecutionError",
    "FDWUnableToCreateReplyError",
    "FDWUnableToEstablishConnectionError",
    "FDWNoSchemasError",
    "FDWSchemaNotFoundError",
    "FDWTableNotFoundError",
    "FDWFunctionSequenceError",
    "FDWTooManyHandlesError",
    "FDWInconsistentDescriptorInformationError",
    "FDWInvalidAttributeValueError",
    "FDWInvalidStringLengthOrBufferLengthError",
    "FDWInvalidDescriptorFieldIdentifierError",
    "PLPGSQLError",
    "RaiseError",
    "NoDataFoundError",
    "TooManyRowsError",
    "AssertError",
    "InternalServerError",
    "DataCorruptedError",
    "IndexCorruptedError",
)
