import{a,b,c,d,e}from"./c.S6OUL2BV.js";import"./c.3KVO7RNL.js";import"./c.TCNNIQG2.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
